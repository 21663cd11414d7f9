package redsync

import (
	"context"
	"os"
	"testing"

	"github.com/go-redsync/redsync/v4/redis"
	peergoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	peerredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	peerrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	redigolib "github.com/gomodule/redigo/redis"
	goredislib "github.com/redis/go-redis/v9"
	rueidislib "github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	_ "golang.org/x/sync/errgroup" // of their tests
	"redislock/goredis/v2"
	"redislock/redigo/v2"
	"redislock/rueidis/v2"
	"redislock/v2"
)

type testCase struct {
	poolCount int
	pools     []redis.Pool
}

var cases = map[string]redis.Pool{}

// makeCases gives each client the one server, with a database of its own.
func makeCases(count int) map[string]*testCase {
	made := map[string]*testCase{}
	for client, pool := range cases {
		made[client] = &testCase{count, []redis.Pool{pool}}
	}
	return made
}

func TestMain(m *testing.M) {
	address := "127.0.0.1:" + os.Getenv("PORT")
	rdb := goredislib.NewClient(&goredislib.Options{Addr: address, DB: 1})
	cases["goredis_v9"] = &pool{peergoredis.NewPool(rdb), redislock.New(goredis.New(rdb))}
	dialed := &redigolib.Pool{MaxIdle: 3, DialContext: func(ctx context.Context) (redigolib.Conn, error) {
		return redigolib.DialContext(ctx, "tcp", address, redigolib.DialDatabase(2))
	}}
	cases["redigo"] = &pool{peerredigo.NewPool(dialed), redislock.New(redigo.New(dialed))}
	client, err := rueidislib.NewClient(rueidislib.ClientOption{InitAddress: []string{address}, SelectDB: 3})
	if err != nil {
		panic(err)
	}
	cases["rueidis"] = &pool{peerrueidis.NewPool(rueidiscompat.NewAdapter(client)), redislock.New(rueidis.New(client))}
	os.Exit(m.Run())
}
