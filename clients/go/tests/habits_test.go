package tests

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redislock/goredis/v2"
	"redislock/v2"
)

const minute = time.Minute

func TestMoreWaitersThanConnectionsAreServed(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		first := lock(t, locks, "market", minute)
		sum := 0
		var all sync.WaitGroup
		for i := 0; i < 150; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				hold, err := locks.Lock(within(t, minute), "market", minute)
				if err != nil {
					t.Error(err)
					return
				}
				sum++
				if err := hold.Release(background); err != nil {
					t.Error(err)
				}
			}()
		}
		eventually(t, "all wait", func() bool { return s.info("market", "queue") == 150 })
		release(t, first)
		if all.Wait(); sum != 150 {
			t.Error(sum)
		}
	})
}

func TestWaitersOfAGoRedisClientWithFewConnectionsLeaveOneForTheRelease(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := redis.NewClient(&redis.Options{Addr: s.address(), PoolSize: 2, MaxActiveConns: 2})
	doer := goredis.New(client)
	t.Cleanup(func() { _, _ = doer.Close(), client.Close() })
	locks := redislock.New(doer)
	hold := lock(t, locks, "market", minute)
	var all sync.WaitGroup
	for range [3]int{} {
		all.Add(1)
		go func() {
			defer all.Done()
			hold, err := locks.Lock(within(t, minute), "market", minute)
			if err == nil {
				err = hold.Release(background)
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	eventually(t, "all wait", func() bool { return s.info("market", "queue") == 3 })
	release(t, hold)
	all.Wait()
}

func TestTheTTLOfAWaiterCountsFromItsGrant(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		first := lock(t, locks, "market", minute)
		ttl := 3 * time.Second
		next := waiter(within(t, minute), locks, "market", ttl)
		eventually(t, "it waits", func() bool { return s.info("market", "queue") == 1 })
		time.Sleep(ttl / 2)
		release(t, first)
		got := <-next
		if got.err != nil {
			t.Fatal(got.err)
		}
		ours := got.hold.TTL()
		theirs := time.Duration(s.do("PTTL", "market").(int64)) * time.Millisecond
		if ours < ttl/2 || theirs+2*time.Second < ours || ours > theirs+100*time.Millisecond {
			t.Error("the hold lasts for", ours, "here and", theirs, "in the server")
		}
	})
}

func TestSeveralLocksAreRefreshedAndGuardedAsOneAndLostWithOneOfThem(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		both, err := locks.LockAll(background, []string{"{a}ann", "{a}bob", "{a}ann"}, minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := both.Refresh(background, 2*minute); err != nil || both.TTL() < minute {
			t.Error(err, both.TTL())
		}
		if reply, err := both.Guard(background, "SET", "{a}x", 5); reply != "OK" || err != nil {
			t.Error(reply, err)
		}
		release(t, both)
		again, err := locks.TryLockAll(background, []string{"{a}ann", "{a}bob"}, minute)
		if err != nil {
			t.Fatal(err)
		}
		s.do("DEL", "{a}bob")
		if err := again.Release(background); !errors.Is(err, redislock.ErrLost) {
			t.Error(err)
		}
	})
}

func TestAWaiterThatTheServerSendsAwayComesBack(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		if k.name == "polling" {
			return // none is blocked
		}
		s := startServer(t)
		locks := k.locks(t, s.address())
		first := lock(t, locks, "market", minute)
		next := waiter(within(t, minute), locks, "market", minute)
		for range [3]int{} {
			eventually(t, "it waits, and is sent away", func() bool {
				for _, client := range strings.Split(s.do("CLIENT", "LIST").(string), "\n") {
					var id int
					if strings.Contains(client, "cmd=lock.acquire") && strings.Contains(client, "flags=b") {
						_, _ = fmt.Sscanf(client, "id=%d ", &id)
						return s.do("CLIENT", "UNBLOCK", id, "ERROR") == int64(1)
					}
				}
				return false
			})
		}
		eventually(t, "it waits again", func() bool { return s.info("market", "queue") == 1 })
		release(t, first)
		got := <-next
		if got.err != nil {
			t.Fatal(got.err)
		}
		release(t, got.hold)
	})
}

func TestAGuardedCommandBringsWhatOneWithoutALockDoes(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		if reply, err := hold.Guard(background, "INCRBY", "price", 5); reply != int64(5) || err != nil {
			t.Error(reply, err)
		}
		if reply, err := hold.Guard(background, "GET", "nothing"); reply != nil || err != nil {
			t.Error(reply, err)
		}
		var refused redislock.ServerError
		if _, err := hold.Guard(background, "LPUSH", "price", 1); !errors.As(err, &refused) || refused.Code() != "WRONGTYPE" {
			t.Error(err)
		}
		if _, err := hold.Guard(background); !errors.Is(err, redislock.ErrInvalid) {
			t.Error(err)
		}
		release(t, hold)
	})
}
