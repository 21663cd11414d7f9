package tests

import (
	"errors"
	"sync"
	"testing"
	"time"

	"redislock/v2"
)

func TestWithoutTheModuleWaitersPollAtTheIntervalThatTheUserChose(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		asked := func(options ...redislock.Option) int {
			before := s.calls("eval")
			_, err := locks.Lock(within(t, 3*time.Second), "market", minute, options...)
			if !errors.Is(err, redislock.ErrNotObtained) {
				t.Error(err)
			}
			return s.calls("eval") - before
		}
		if calls := asked(); calls < 10 || calls > 50 {
			t.Error(calls, "requests in three seconds, at most 100 ms apart")
		}
		if calls := asked(redislock.RetryInterval(time.Second)); calls < 3 || calls > 15 {
			t.Error(calls, "requests in three seconds, up to a second apart")
		}
		next := waiter(within(t, minute), locks, "market", minute)
		time.Sleep(500 * time.Millisecond)
		release(t, hold)
		released := time.Now()
		got := <-next
		if got.err != nil || got.at.Sub(released) > 2*time.Second {
			t.Fatal(got.err, got.at.Sub(released))
		}
		release(t, got.hold)
	})
}

func TestWithoutTheModuleAReleaseWakesAWaiterOfItsProcess(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		var all sync.WaitGroup
		for i := 0; i < 5; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				hold, err := locks.Lock(within(t, minute), "market", minute, redislock.RetryInterval(time.Hour))
				if err != nil {
					t.Error(err)
					return
				}
				if err := hold.Release(background); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(6 * time.Second) // by now they pause for five seconds
		began := time.Now()
		release(t, hold)
		if all.Wait(); time.Since(began) > 1500*time.Millisecond {
			t.Error(time.Since(began))
		}
	})
}

// A client learns only after some seconds that the module was loaded.
func TestWithoutTheModuleALockThatOthersShareIsWaitedFor(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		s.do("DEL", "market")
		s.do("ZADD", "market", 1, "reader")
		if err := hold.Release(background); !errors.Is(err, redislock.ErrLost) {
			t.Error(err)
		}
		if _, err := locks.TryLock(background, "market", minute); err != redislock.ErrNotObtained {
			t.Error(err)
		}
		next := waiter(within(t, minute), locks, "market", minute)
		asked := s.calls("eval")
		eventually(t, "it polls", func() bool { return s.calls("eval") > asked+1 })
		s.do("DEL", "market")
		got := <-next
		if got.err != nil {
			t.Fatal(got.err)
		}
		release(t, got.hold)

		s.do("RPUSH", "market", "no lock")
		var refused redislock.ServerError
		if _, err := locks.Lock(within(t, minute), "market", minute); !errors.As(err, &refused) || refused.Code() != "WRONGTYPE" {
			t.Error(err)
		}
	})
}
