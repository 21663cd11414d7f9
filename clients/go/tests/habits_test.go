package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redislock/goredis/v2"
	"redislock/v2"
)

const minute = time.Minute

func TestALockIsHeldByOneOwnerAndPassesToTheNextWhenItIsReleased(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		first := lock(t, locks, "market", minute)
		if owner := s.do("GET", "market"); owner != first.Owner() {
			t.Error("the key is the bare name, and its value the owner; it is", owner)
		}
		next := waiter(within(t, minute), locks, "market", minute)
		eventually(t, "the next waits", func() bool { return s.info("market", "queue") == 1 })
		if !first.Held() || first.Err() != nil || first.TTL() > minute || first.TTL() < minute/2 {
			t.Error(first.Err(), first.TTL())
		}
		release(t, first)
		if <-first.Done(); first.Held() || !errors.Is(first.Err(), redislock.ErrReleased) || first.TTL() != 0 {
			t.Error(first.Err(), first.TTL())
		}
		if err := first.Release(background); !errors.Is(err, redislock.ErrReleased) {
			t.Error(err)
		}
		second := <-next
		if second.err != nil || second.hold.Fence() <= first.Fence() || first.Fence() <= 0 {
			t.Fatal(second.err, "the fencing tokens must rise")
		}
		release(t, second.hold)
		if !s.isFree("market") {
			t.Error("something is left")
		}
	})
}

func TestWaitersAreServedInOrder(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		first := lock(t, locks, "market", minute)
		var order []int
		var all sync.WaitGroup
		for i := 0; i < 10; i++ {
			next := waiter(within(t, minute), locks, "market", minute)
			eventually(t, "it waits", func() bool { return s.info("market", "queue") == int64(i+1) })
			all.Add(1)
			go func(i int) {
				defer all.Done()
				got := <-next
				if got.err != nil {
					t.Error(got.err)
					return
				}
				order = append(order, i) // while it holds the lock
				if err := got.hold.Release(background); err != nil {
					t.Error(err)
				}
			}(i)
		}
		release(t, first)
		all.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4 5 6 7 8 9]" {
			t.Error(order)
		}
	})
}

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

func TestATryReturnsAtOnceIfOthersHoldTheLock(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		if _, err := locks.TryLock(background, "market", minute); err != redislock.ErrNotObtained {
			t.Error(err)
		}
		release(t, hold)
		again, err := locks.TryLock(background, "market", minute)
		if err != nil {
			t.Fatal(err)
		}
		release(t, again)
	})
}

func TestADeadlineEndsAWaitAndLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		began := time.Now()
		_, err := locks.Lock(within(t, 200*time.Millisecond), "market", minute)
		if !errors.Is(err, redislock.ErrNotObtained) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took < 190*time.Millisecond || took > 2*time.Second {
			t.Error(took)
		}
		eventually(t, "nothing waits", func() bool { return s.info("market", "queue") == 0 })
		release(t, hold)
		if !s.isFree("market") {
			t.Error("something is left")
		}
	})
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

func TestALockIsSharedLimitedAndOfSeveralKeys(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		readers := []*redislock.Hold{lock(t, locks, "prices", minute, redislock.Shared()), lock(t, locks, "prices", minute, redislock.Shared())}
		if _, err := locks.TryLock(background, "prices", minute); err != redislock.ErrNotObtained {
			t.Error(err)
		}
		for _, reader := range readers {
			release(t, reader)
		}
		permit := lock(t, locks, "printer", minute, redislock.Limit(1))
		if _, err := locks.TryLock(background, "printer", minute, redislock.Limit(1)); err != redislock.ErrNotObtained {
			t.Error(err)
		}
		other := lock(t, locks, "printer", minute, redislock.Limit(2))
		release(t, permit)
		release(t, other)

		both, err := locks.LockAll(background, []string{"{a}ann", "{a}bob", "{a}ann"}, minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locks.TryLock(background, "{a}bob", minute); err != redislock.ErrNotObtained {
			t.Error(err)
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
			t.Error("one of two was gone:", err)
		}
	})
}

func TestAnOwnerSaysWhereTheHoldBelongs(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		host, _ := os.Hostname()
		uuid := "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
		for _, of := range []struct {
			options []redislock.Option
			owner   string
		}{
			{nil, fmt.Sprintf("^%s:%d:%s", regexp.QuoteMeta(host), os.Getpid(), uuid)},
			{[]redislock.Option{redislock.OwnerPrefix("shop")}, "^shop:" + uuid},
			{[]redislock.Option{redislock.Owner("order-7")}, "^order-7$"},
		} {
			hold := lock(t, locks, "market", minute, of.options...)
			if owner := s.do("GET", "market").(string); !regexp.MustCompile(of.owner).MatchString(owner) {
				t.Error(owner, "is not", of.owner)
			}
			release(t, hold)
		}
	})
}

func TestWhatTheServerRefusesIsAnErrorInWordsAndNotRetried(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		x := lock(t, locks, "x", minute, redislock.Owner("ann"))
		y := lock(t, locks, "y", minute, redislock.Owner("ben"))
		waits := waiter(within(t, minute), locks, "x", minute, redislock.Owner("ben"))
		eventually(t, "ben waits", func() bool { return s.info("x", "queue") == 1 })
		_, err := locks.Lock(background, "y", minute, redislock.Owner("ann"))
		if !errors.Is(err, redislock.ErrDeadlock) || !strings.Contains(err.Error(), `"ben" waits for "x"`) {
			t.Error(err)
		}
		_, err = locks.Lock(background, "x", minute, redislock.MaxQueue(1))
		if !errors.Is(err, redislock.ErrQueueFull) || errors.Is(err, redislock.ErrDeadlock) {
			t.Error(err)
		}
		s.do("RPUSH", "list", "a")
		var refused redislock.ServerError
		if _, err = locks.Lock(background, "list", minute); !errors.As(err, &refused) || refused.Code() != "WRONGTYPE" {
			t.Error(err)
		}
		release(t, x)
		got := <-waits
		release(t, got.hold)
		release(t, y)
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

func TestAGuardedCommandRunsOnlyWhileTheLockIsHeld(t *testing.T) {
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
		s.do("DEL", "market")
		if _, err := hold.Guard(background, "INCR", "price"); !errors.Is(err, redislock.ErrLost) {
			t.Error(err)
		}
		if <-hold.Done(); !errors.Is(hold.Err(), redislock.ErrLost) {
			t.Error(hold.Err())
		}
		if err := hold.Release(background); !errors.Is(err, redislock.ErrLost) {
			t.Error(err)
		}
		if price := s.do("GET", "price"); price != "5" {
			t.Error(price)
		}
	})
}
