package tests

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	official "github.com/redis/rueidis"

	"redislock/goredis/v2"
	"redislock/rueidis/v2"
	"redislock/v2"
)

// In a cluster of two nodes, so that a command may come to the wrong one.
func TestLocksOfAClusterAreFoundOnTheirNodes(t *testing.T) {
	t.Parallel()
	one := start(t, "--loadmodule", module(), "--cluster-enabled", "yes")
	two := start(t, "--loadmodule", module(), "--cluster-enabled", "yes")
	one.do("CLUSTER", "ADDSLOTSRANGE", 0, 8000)
	two.do("CLUSTER", "ADDSLOTSRANGE", 8001, 16383)
	one.do("CLUSTER", "MEET", "127.0.0.1", two.port)
	eventually(t, "the cluster is up", func() bool {
		return strings.Contains(one.do("CLUSTER", "INFO").(string), "cluster_state:ok") &&
			strings.Contains(two.do("CLUSTER", "INFO").(string), "cluster_state:ok") &&
			strings.Contains(one.do("CLUSTER", "INFO").(string), "cluster_known_nodes:2")
	})
	byGoRedis := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{one.address()}})
	t.Cleanup(func() { _ = byGoRedis.Close() })
	byRueidis, err := official.NewClient(official.ClientOption{InitAddress: []string{one.address()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(byRueidis.Close)
	for name, doer := range map[string]redislock.Doer{"go-redis": goredis.New(byGoRedis), "rueidis": rueidis.New(byRueidis)} {
		t.Run(name, func(t *testing.T) {
			locks := redislock.New(doer)
			for _, tag := range []string{"{a}", "{b}", "{c}", "{d}"} { // some on each node
				both, err := locks.LockAll(within(t, minute), []string{tag + "x", tag + "y"}, minute)
				if err != nil {
					t.Fatal(err)
				}
				next := waiter(within(t, minute), locks, tag+"y", minute)
				if reply, err := both.Guard(background, "SET", tag+"price", 5); reply != "OK" || err != nil {
					t.Error(reply, err)
				}
				if err := both.Refresh(background, minute); err != nil {
					t.Error(err)
				}
				release(t, both)
				got := <-next
				if got.err != nil {
					t.Fatal(got.err)
				}
				release(t, got.hold)
			}
			var refused redislock.ServerError
			if _, err := locks.LockAll(within(t, minute), []string{"{a}", "{b}"}, minute); !errors.As(err, &refused) || refused.Code() != "CROSSSLOT" {
				t.Error(err)
			}
		})
	}
}
