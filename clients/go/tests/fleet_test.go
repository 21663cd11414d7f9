package tests

import (
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redislock/v2"
)

// Goroutines of each client read a number and write it one higher, while its connections break. If two held the lock at
// once an update would be lost.
func TestNoTwoHoldALockWhileConnectionsBreak(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *server{"with the module": startServer, "without": startBare} {
		start := start
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var grants atomic.Int64
			const enough = 20
			began := time.Now()
			goesOn := func() bool { // on a busy machine longer
				took := time.Since(began)
				return took < 8*time.Second || grants.Load() < enough && took < time.Minute
			}
			var workers sync.WaitGroup
			for _, k := range kinds {
				p := startProxy(t, s.address())
				locks := k.locks(t, p.address)
				workers.Add(1)
				go func() {
					defer workers.Done()
					for goesOn() {
						time.Sleep(time.Duration(rand.Int63n(int64(100 * time.Millisecond))))
						word := []string{"LOCK.ACQUIRE", "LOCK.RELEASE", "EVAL"}[rand.Intn(3)]
						switch rand.Intn(3) {
						case 0:
							p.cutBefore(word)
						case 1:
							p.cutAfter(word)
						case 2:
							p.stall(word, time.Duration(rand.Int63n(int64(300*time.Millisecond))))
						}
					}
				}()
				for i := 0; i < 3; i++ {
					workers.Add(1)
					go func() {
						defer workers.Done()
						for goesOn() {
							hold, err := locks.Lock(within(t, time.Duration(rand.Int63n(int64(3*time.Second)))), "market", minute)
							if err != nil {
								continue // given up
							}
							count, _ := strconv.Atoi(s.text("count"))
							time.Sleep(time.Duration(rand.Int63n(int64(time.Millisecond))))
							s.do("SET", "count", count+1)
							grants.Add(1)
							_ = hold.Release(background) // goes on in the background if it fails
						}
					}()
				}
			}
			workers.Wait()
			if count, _ := strconv.Atoi(s.text("count")); int64(count) != grants.Load() || count < enough {
				t.Error(grants.Load(), "grants, and the count is", count)
			}
			last := redislock.New(kinds[0].connect(t, s.address()))
			hold, err := last.Lock(within(t, 20*time.Second), "market", minute)
			if err != nil {
				t.Fatal("a lock was left behind, of", s.text("market"), err)
			}
			release(t, hold)
			t.Log(grants.Load(), "grants")
		})
	}
}
