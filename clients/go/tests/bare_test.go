package tests

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redislock/v2"
)

func TestWithoutTheModuleALockIsTheSameKey(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		var log bytes.Buffer
		locks := k.locks(t, s.address(), redislock.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		hold := lock(t, locks, "market", minute)
		if owner := s.do("GET", "market"); owner != hold.Owner() || hold.Fence() != 0 {
			t.Error(owner, hold.Fence())
		}
		if left := s.do("PTTL", "market").(int64); left > 60_000 || left < 30_000 {
			t.Error(left)
		}
		if _, err := locks.TryLock(background, "market", minute); err != redislock.ErrNotObtained {
			t.Error(err)
		}
		if err := hold.Refresh(background, 2*minute); err != nil || s.do("PTTL", "market").(int64) < 60_000 {
			t.Error(err)
		}
		if reply, err := hold.Guard(background, "INCRBY", "price", 5); reply != int64(5) || err != nil {
			t.Error(reply, err)
		}
		release(t, hold)
		if s.do("EXISTS", "market") != int64(0) {
			t.Error("not released")
		}
		hold = lock(t, locks, "market", minute)
		s.do("SET", "market", "another")
		if _, err := hold.Guard(background, "INCRBY", "price", 5); !errors.Is(err, redislock.ErrLost) {
			t.Error(err)
		}
		if err := hold.Release(background); !errors.Is(err, redislock.ErrLost) || s.do("GET", "market") != "another" {
			t.Error(err)
		}
		if count := strings.Count(log.String(), "module"); count == 0 || strings.Count(log.String(), "\n") != 1 {
			t.Error(log.String())
		}
	})
}

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

func TestWithoutTheModuleNoTwoHoldALock(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		locks := k.locks(t, s.address())
		sum := 0
		var all sync.WaitGroup
		for i := 0; i < 20; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				hold, err := locks.Lock(within(t, minute), "market", minute)
				if err != nil {
					t.Error(err)
					return
				}
				sum++ // the race detector sees two at once
				if err := hold.Release(background); err != nil {
					t.Error(err)
				}
			}()
		}
		if all.Wait(); sum != 20 {
			t.Error(sum)
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

func TestWithoutTheModuleLostRepliesAndSilenceAreSurvived(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		p := startProxy(t, s.address())
		locks := k.locks(t, p.address)
		release(t, lock(t, locks, "market", minute)) // the module is known to be missing
		p.cutAfter("NX")
		hold := lock(t, locks, "market", minute)
		if !p.happened() || s.do("GET", "market") != hold.Owner() {
			t.Error("the hold is not known by its owner")
		}
		p.cutAfter("del")
		if err := hold.Release(background); err != nil {
			t.Error(err)
		}
		hold = lock(t, locks, "market", minute)
		s.signal(syscall.SIGSTOP)
		defer s.signal(syscall.SIGCONT)
		began := time.Now()
		if err := hold.Release(within(t, 300*time.Millisecond)); err == nil || time.Since(began) > 2*time.Second {
			t.Error(err, time.Since(began))
		}
		s.signal(syscall.SIGCONT)
		eventually(t, "it is released", func() bool { return s.do("EXISTS", "market") == int64(0) })
	})
}

func TestWhatNeedsTheModuleSaysSo(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		locks := k.locks(t, s.address())
		for what, option := range map[string]redislock.Option{
			"Shared": redislock.Shared(), "Limit": redislock.Limit(3), "MaxQueue": redislock.MaxQueue(3), "RequireModule": redislock.RequireModule(),
		} {
			if _, err := locks.Lock(background, "market", minute, option); !errors.Is(err, redislock.ErrModuleMissing) || !strings.Contains(err.Error(), what) {
				t.Error(err)
			}
		}
		if _, err := locks.TryLockAll(background, []string{"a", "b"}, minute); !errors.Is(err, redislock.ErrModuleMissing) {
			t.Error(err)
		}
	})
}

func TestTheModuleIsUnloadedAndLoadedMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		other := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		next := waiter(within(t, minute), other, "market", minute)
		for i := range [2]int{} {
			s.do("CONFIG", "SET", "lock.drain", "yes")
			eventually(t, "the module can be unloaded", func() bool {
				return s.admin.Do(background, "MODULE", "UNLOAD", "lock").Err() == nil
			})
			if err := hold.Refresh(background, minute); err != nil {
				t.Error(i, err)
			}
			s.do("MODULE", "LOAD", module())
			if err := hold.Refresh(background, minute); err != nil {
				t.Error(i, err)
			}
		}
		eventually(t, "the next has found the module again, or polls", func() bool {
			return s.info("market", "queue") == 1 || s.calls("eval") > 0
		})
		if s.do("GET", "market") != hold.Owner() {
			t.Error("another one has it")
		}
		release(t, hold)
		got := <-next
		if got.err != nil {
			t.Fatal(got.err)
		}
		release(t, got.hold)
		if owner := fmt.Sprint(s.do("GET", "market")); owner != "<nil>" {
			t.Error(owner)
		}
	})
}
