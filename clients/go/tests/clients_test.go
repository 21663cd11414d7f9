package tests

import (
	"context"
	"errors"
	"testing"
	"time"

	redigoredis "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	official "github.com/redis/rueidis"

	"redislock/goredis/v2"
	"redislock/redigo/v2"
	"redislock/rueidis/v2"
	"redislock/v2"
)

// Each test runs with each of these.
var kinds = []kind{
	{"go-redis", func(t *testing.T, address string) redislock.Doer {
		client := redis.NewClient(&redis.Options{Addr: address})
		doer := goredis.New(client)
		t.Cleanup(func() { _, _ = doer.Close(), client.Close() })
		return doer
	}},
	{"redigo", func(t *testing.T, address string) redislock.Doer {
		pool := &redigoredis.Pool{MaxIdle: 10, DialContext: func(ctx context.Context) (redigoredis.Conn, error) {
			return redigoredis.DialContext(ctx, "tcp", address)
		}}
		doer := redigo.New(pool)
		t.Cleanup(func() { _, _ = doer.Close(), pool.Close() })
		return doer
	}},
	{"rueidis", func(t *testing.T, address string) redislock.Doer {
		client, err := official.NewClient(official.ClientOption{InitAddress: []string{address}, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return rueidis.New(client)
	}},
	// Without a connection to block.
	{"polling", func(t *testing.T, address string) redislock.Doer {
		client := redis.NewClient(&redis.Options{Addr: address})
		t.Cleanup(func() { _ = client.Close() })
		return polling{goredis.New(client)}
	}},
}

type polling struct{ redislock.Pipeliner }

type kind struct {
	name    string
	connect func(*testing.T, string) redislock.Doer
}

func (k kind) locks(t *testing.T, address string, options ...redislock.Option) *redislock.Client {
	locks := redislock.New(k.connect(t, address), options...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = locks.Wait(ctx)
	})
	return locks
}

func each(t *testing.T, test func(*testing.T, kind)) {
	t.Parallel()
	for _, k := range kinds {
		k := k
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

var background = context.Background()

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(background, limit)
	t.Cleanup(cancel)
	return ctx
}

func lock(t *testing.T, locks *redislock.Client, key string, ttl time.Duration, options ...redislock.Option) *redislock.Hold {
	t.Helper()
	hold, err := locks.Lock(within(t, 30*time.Second), key, ttl, options...)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func release(t *testing.T, hold *redislock.Hold) {
	t.Helper()
	if err := hold.Release(background); err != nil {
		t.Fatal(err)
	}
}

// waiter asks for the lock in the background.
func waiter(ctx context.Context, locks *redislock.Client, key string, ttl time.Duration, options ...redislock.Option) <-chan outcome {
	outcomes := make(chan outcome, 1)
	go func() {
		hold, err := locks.Lock(ctx, key, ttl, options...)
		outcomes <- outcome{hold, err, time.Now()}
	}()
	return outcomes
}

type outcome struct {
	hold *redislock.Hold
	err  error
	at   time.Time
}

func TestAClosedClientIsSaidToBeClosed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	one := redis.NewClient(&redis.Options{Addr: s.address()})
	defer one.Close()
	oneDoer := goredis.New(one)
	_ = oneDoer.Close()
	pool := &redigoredis.Pool{Dial: func() (redigoredis.Conn, error) { return redigoredis.Dial("tcp", s.address()) }}
	poolDoer := redigo.New(pool)
	_, _ = poolDoer.Close(), pool.Close()
	other, err := official.NewClient(official.ClientOption{InitAddress: []string{s.address()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	for name, doer := range map[string]redislock.Doer{"go-redis": oneDoer, "redigo": poolDoer, "rueidis": rueidis.New(other)} {
		locks := redislock.New(doer)
		if _, err := locks.TryLock(background, "market", minute); !errors.Is(err, redislock.ErrClosed) {
			t.Error(name, err)
		}
		if _, err := locks.Lock(within(t, minute), "market", minute); !errors.Is(err, redislock.ErrClosed) {
			t.Error(name, err)
		}
	}
}
