// Bench measures this package beside bsm/redislock and redsync, all with go-redis, on one server:
//
//	cd clients/go/bench && go run . 127.0.0.1:6379
//
// Each figure is the median of five rounds, in which the three take turns.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	theirs "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"redislock/goredis/v2"
	"redislock/v2"
)

const (
	rounds     = 5
	pairs      = 3000
	contenders = 64
	contended  = 3 * time.Second
	handoffs   = 10
	ttl        = 30 * time.Second
)

var background = context.Background()

// acquire takes the lock, however long it takes, and returns what releases it.
type library struct {
	name    string
	acquire func(key string) (release func())
	figures map[string][]float64
}

func main() {
	address := "127.0.0.1:6379"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	rdb := redis.NewClient(&redis.Options{Addr: address, PoolSize: 2 * contenders})
	locks := redislock.New(goredis.New(rdb))
	bsm := theirs.New(rdb)
	sync := redsync.New(redsyncpool.NewPool(rdb))
	libraries := []*library{
		{"redislock/v2", func(key string) func() {
			hold, err := locks.Lock(background, key, ttl)
			check(err)
			return func() { check(hold.Release(background)) }
		}, map[string][]float64{}},
		{"bsm/redislock", func(key string) func() { // the pause of its README
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			lock, err := bsm.Obtain(ctx, key, ttl, &theirs.Options{RetryStrategy: theirs.LinearBackoff(100 * time.Millisecond)})
			check(err)
			return func() { check(lock.Release(background)) }
		}, map[string][]float64{}},
		{"redsync", func(key string) func() { // pauses of 50 to 250 ms, its default
			mutex := sync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1000))
			check(mutex.Lock())
			return func() { _, err := mutex.Unlock(); check(err) }
		}, map[string][]float64{}},
	}
	for round := 0; round < rounds; round++ {
		for i := range libraries {
			l := libraries[(i+round)%len(libraries)]
			l.pairs()
			l.contend(rdb)
			l.handOff()
		}
	}
	figures := []string{"pair, us", "pair, us of CPU", "64: grants/s", "64: fewest", "64: most", "64: commands/grant",
		"64: us of CPU/grant", "handoff, ms"}
	fmt.Printf("%-14s", "")
	for _, figure := range figures {
		fmt.Printf("%21s", figure)
	}
	for _, l := range libraries {
		fmt.Printf("\n%-14s", l.name)
		for _, figure := range figures {
			fmt.Printf("%21.1f", median(l.figures[figure]))
		}
	}
	fmt.Println()
}

func (l *library) add(figure string, value float64) {
	l.figures[figure] = append(l.figures[figure], value)
}

// pairs are of one goroutine, and nothing else wants the lock. The median counts: other programs interrupt some pairs.
func (l *library) pairs() {
	l.acquire("bench:warm")()
	took, cpu := make([]float64, pairs), processor()
	for i := range took {
		began := time.Now()
		l.acquire("bench:pair")()
		took[i] = float64(time.Since(began).Nanoseconds()) / 1000
	}
	l.add("pair, us", median(took))
	l.add("pair, us of CPU", float64((processor()-cpu).Microseconds())/pairs)
}

// contend lets goroutines take one lock over and over, and do nothing with it.
func (l *library) contend(rdb *redis.Client) {
	grants := make([]float64, contenders)
	began, cpu, commands := time.Now(), processor(), processed(rdb)
	var all sync.WaitGroup
	for i := range grants {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Since(began) < contended {
				release := l.acquire("bench:contended")
				if time.Since(began) < contended {
					grants[i]++
				}
				release()
			}
		}()
	}
	all.Wait()
	sum := 0.0
	for _, count := range grants {
		sum += count
	}
	l.add("64: grants/s", sum/contended.Seconds())
	l.add("64: fewest", slices.Min(grants))
	l.add("64: most", slices.Max(grants))
	l.add("64: commands/grant", float64(processed(rdb)-commands)/sum)
	l.add("64: us of CPU/grant", float64((processor()-cpu).Microseconds())/sum)
}

// handOff is from a release to the grant of the one that waits.
func (l *library) handOff() {
	for i := 0; i < handoffs; i++ {
		release := l.acquire("bench:handoff")
		granted := make(chan time.Time)
		go func() {
			next := l.acquire("bench:handoff")
			granted <- time.Now()
			next()
			close(granted)
		}()
		time.Sleep(time.Duration(200+17*i) * time.Millisecond)
		released := time.Now()
		release()
		l.add("handoff, ms", float64((<-granted).Sub(released).Microseconds())/1000)
		<-granted
	}
}

func processor() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func processed(rdb *redis.Client) (count int) {
	stats, err := rdb.Info(background, "stats").Result()
	check(err)
	_, rest, _ := strings.Cut(stats, "total_commands_processed:")
	_, err = fmt.Sscan(rest, &count)
	check(err)
	return count
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
