package tests

import (
	"errors"
	"testing"
	"time"

	"redislock/v2"
)

func isLost(t *testing.T, hold *redislock.Hold, limit time.Duration) {
	t.Helper()
	select {
	case <-hold.Done():
	case <-time.After(limit):
		t.Error("not known to be lost after", limit)
	}
	if !errors.Is(hold.Err(), redislock.ErrLost) || hold.Held() || hold.TTL() != 0 {
		t.Error(hold.Err(), hold.TTL())
	}
}

func TestAHoldIsRenewedUntilItIsReleased(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		ttl := 1500 * time.Millisecond
		hold := lock(t, locks, "market", ttl, redislock.Renew())
		time.Sleep(2 * ttl)
		if !hold.Held() {
			t.Fatal(hold.Err())
		}
		// At a third of the ttl: six times, and not all the time.
		if calls := s.calls("lock.renew"); calls < 3 || calls > 8 {
			t.Error(calls, "renewals")
		}
		release(t, hold)
		calls := s.calls("lock.renew")
		time.Sleep(ttl)
		if again := s.calls("lock.renew"); again > calls+1 {
			t.Error("still renewed")
		}
	})
}

func TestRenewalsEndAfterTheirTime(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		began := time.Now()
		hold := lock(t, locks, "market", 3*time.Second, redislock.RenewFor(1500*time.Millisecond))
		isLost(t, hold, 20*time.Second)
		if took := time.Since(began); took < 3500*time.Millisecond { // one renewal, after one second
			t.Error(took)
		}
	})
}

func TestTheTTLOfAHoldIsNeverMoreThanInTheServer(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startServer(t)
		locks := k.locks(t, s.address())
		hold := lock(t, locks, "market", minute)
		for _, ttl := range []time.Duration{2 * minute, minute / 2} {
			err := hold.Refresh(background, ttl)
			// The server counts in whole milliseconds: from the one in which the ttl began to the one of the PTTL. Its
			// key goes only after the last of them.
			left := time.Duration(s.do("PTTL", "market").(int64)+1) * time.Millisecond
			if ours := hold.TTL(); err != nil || ours > left || ours < ttl-10*time.Second {
				t.Error(err, ours, left)
			}
		}
		if err := hold.Refresh(background, 0); !errors.Is(err, redislock.ErrInvalid) || !hold.Held() {
			t.Error(err)
		}
		release(t, hold)
	})
}
