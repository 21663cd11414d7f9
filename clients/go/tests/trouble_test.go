package tests

import (
	"context"
	"errors"
	"math/rand"
	"sync"
	"syscall"
	"testing"
	"time"

	"redislock/v2"
)

func TestAFailedReleaseGoesOnInTheBackground(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		p := startProxy(t, s.address())
		locks := k.locks(t, p.address)
		hold := lock(t, locks, "market", minute)
		p.close()
		if err := hold.Release(within(t, 300*time.Millisecond)); err == nil || errors.Is(err, redislock.ErrLost) {
			t.Error(err)
		}
		if err := locks.Wait(within(t, 100*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		p.listen()
		eventually(t, "it is released", func() bool { return s.isFree("market") })
		if err := locks.Wait(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	})
}

func TestAReleaseWithAnEndedContextGoesOnInTheBackground(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		ctx, cancel := context.WithCancel(background)
		cancel()
		if err := hold.Release(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := locks.Wait(within(t, 20*time.Second)); err != nil || !s.isFree("market") {
			t.Error(err, "the lock was not released")
		}
	})
}

func TestADeadlineForAHoldHoldsIfTheServerDoesNotReply(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", 2*minute)
		other := lock(t, locks, "other", 2*minute)
		s.signal(syscall.SIGSTOP)
		defer s.signal(syscall.SIGCONT)
		short := 300 * time.Millisecond
		for what, call := range map[string]func(context.Context) error{
			"Refresh": func(ctx context.Context) error { return hold.Refresh(ctx, 2*minute) },
			"Guard":   func(ctx context.Context) error { _, err := hold.Guard(ctx, "SET", "x", 1); return err },
			"Release": func(ctx context.Context) error { return other.Release(ctx) },
		} {
			began := time.Now()
			err := call(within(t, short))
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > short+time.Second {
				t.Error(what, took, err)
			}
		}
		s.signal(syscall.SIGCONT)
		eventually(t, "it is released", func() bool { return s.isFree("other") })
		release(t, hold)
	})
}

func TestARepeatedRequestThatArrivesAfterTheReleaseIsWithdrawn(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		p := startProxy(t, s.address())
		// A place is asked for again after two seconds without a reply, over another connection, so this request comes
		// last. (BLOCK waits for its reply, and rueidis sends all by one connection.)
		locks := k.locks(t, p.address, redislock.Queue())
		p.stall("LOCK.ACQUIRE", 4*time.Second)
		release(t, lock(t, locks, "market", minute))
		eventually(t, "both have arrived", func() bool { return s.calls("lock.acquire") >= 2 })
		eventually(t, "nothing is left", func() bool { return s.isFree("market") })
	})
}

func TestGivingUpAtAnyMomentLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		var all sync.WaitGroup
		for i := 0; i < 300; i++ {
			all.Add(1)
			go func(patience time.Duration) {
				defer all.Done()
				ctx, cancel := context.WithTimeout(background, patience)
				defer cancel()
				hold, err := locks.Lock(ctx, "market", minute)
				if err == nil {
					err = hold.Release(ctx)
				}
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}(time.Duration(rand.Int63n(int64(100 * time.Millisecond))))
		}
		all.Wait()
		if err := locks.Wait(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
		eventually(t, "nothing is left", func() bool { return s.isFree("market") })
	})
}
