// The market under a lock, with redigo. Needs a server with the module (`make run`); PORT says where.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const (
	market   = "market"
	lockName = "{market}:lock"
	block    = 10 * time.Second // for how long to wait for the lock
)

var (
	errLost = errors.New("the hold ended before the work did: somebody else may have worked beside us")
	errBusy = errors.New("the market was not free in time")
)

// redigo reads for ever unless you say otherwise, so one usually sets DialReadTimeout. A wait gets a longer one by
// DoWithTimeout, below. A goroutine that waits has a connection of its own: with MaxActive there must be more of them
// than can ever wait, or the holder finds none to release by.
func connect() *redis.Pool {
	port := os.Getenv("PORT")
	if port == "" {
		port = "6379"
	}
	return &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "127.0.0.1:"+port, redis.DialReadTimeout(5*time.Second))
	}}
}

// ask sends a command, and again by another connection when one breaks: same owner, so same fencing number. redigo
// never asks again by itself. The server's own errors are answers.
func ask(pool *redis.Pool, wait time.Duration, command string, args ...interface{}) (answer interface{}, err error) {
	for try := 0; try < 15; try++ { // more than MaxIdle: they may all be broken
		conn := pool.Get()
		answer, err = redis.DoWithTimeout(conn, wait+5*time.Second, command, args...)
		conn.Close()
		var refused redis.Error
		if err == nil || errors.As(err, &refused) {
			return answer, err
		}
	}
	return nil, err
}

func acquire(pool *redis.Pool, owner string, ttl, wait time.Duration) (fence int64, err error) {
	args := redis.Args{lockName, owner, ttl.Milliseconds()}
	if wait > 0 {
		args = args.Add("BLOCK", wait.Milliseconds())
	}
	fence, err = redis.Int64(ask(pool, wait, "LOCK.ACQUIRE", args...))
	if err == redis.ErrNil {
		err = errBusy
	}
	return fence, err
}

// withLock runs the work under the lock, and renews it until the work is done. When that comes too late the work's
// context is cancelled.
func withLock(pool *redis.Pool, ttl time.Duration, work func(ctx context.Context, owner string) error) (err error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	owner := fmt.Sprintf("%x", id) // a fresh one for each piece of work, not for each worker
	if _, err := acquire(pool, owner, ttl, block); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if held, err := redis.Bool(ask(pool, 0, "LOCK.RENEW", lockName, owner, ttl.Milliseconds())); err == nil && !held {
					cancel()
				}
			}
		}
	}()
	defer func() {
		cancel()
		// Asked twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.
		if held, failed := redis.Bool(ask(pool, 0, "LOCK.RELEASE", lockName, owner)); failed == nil && !held {
			err = errLost
		} else if err == nil {
			err = failed
		}
	}()
	return work(ctx, owner)
}

// write is one command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead
// of adding (HINCRBY), because ask may send it twice.
func write(pool *redis.Pool, owner string, values map[string]interface{}) error {
	args := redis.Args{lockName, owner, "HSET", market}.AddFlat(values)
	_, err := ask(pool, 0, "LOCK.GUARD", args...)
	return err
}

func sell(pool *redis.Pool, seller, item string, price int) error {
	return withLock(pool, 5*time.Second, func(_ context.Context, owner string) error {
		if has, err := redis.String(ask(pool, 0, "HGET", market, item+":owner")); err != nil || has != seller {
			return fmt.Errorf("%s has no %s (%v)", seller, item, err)
		}
		return write(pool, owner, map[string]interface{}{item + ":price": price})
	})
}

func buy(pool *redis.Pool, buyer, item string) (bought bool, err error) {
	err = withLock(pool, 5*time.Second, func(_ context.Context, owner string) error {
		seller, err := redis.String(ask(pool, 0, "HGET", market, item+":owner"))
		if err != nil {
			return err
		}
		now, err := redis.Ints(ask(pool, 0, "HMGET", market, item+":price", buyer+":funds", seller+":funds"))
		if err != nil || now[0] == 0 || now[0] > now[1] {
			return err
		}
		bought = true
		return write(pool, owner, map[string]interface{}{
			buyer + ":funds": now[1] - now[0], seller + ":funds": now[2] + now[0],
			item + ":owner": buyer, item + ":price": 0,
		})
	})
	return bought && err == nil, err
}

// From here on: the examples at work, and what must come of it.
func main() {
	pool, operator := connect(), connect()
	need(ask(pool, 0, "DEL", market, lockName))
	need(ask(pool, 0, "HSET", market, "ann:funds", 0, "bob:funds", 100, "sword:owner", "ann"))

	must(sell(pool, "ann", "sword", 80) == nil)
	bought, err := buy(pool, "bob", "sword")
	must(bought && err == nil)
	bought, err = buy(pool, "bob", "sword")
	must(!bought && err == nil)
	funds, err := redis.Ints(ask(pool, 0, "HMGET", market, "ann:funds", "bob:funds"))
	must(err == nil && funds[0] == 80 && funds[1] == 20)
	fmt.Println("bob has bought the sword")

	need(acquire(pool, "a worker that dies", 5500*time.Millisecond, 0))
	_, err = acquire(pool, "one that only tries", time.Second, 0)
	must(err == errBusy)
	began := time.Now()
	must(withLock(pool, time.Second, func(ctx context.Context, owner string) error {
		must(time.Since(began) > 5*time.Second)
		fmt.Println("waited for longer than the read timeout")
		select {
		case <-ctx.Done():
			return errLost
		case <-time.After(2 * time.Second):
			return nil
		}
	}) == nil)
	fmt.Println("renewed a long job")

	var late string
	must(withLock(pool, 300*time.Millisecond, func(ctx context.Context, owner string) error {
		late = owner
		need(ask(operator, 0, "LOCK.BREAK", lockName))
		<-ctx.Done()
		return ctx.Err()
	}) == errLost)
	err = write(pool, late, map[string]interface{}{"bob:funds": 1000000})
	must(err != nil && strings.HasPrefix(err.Error(), "NOTOWNER"))
	fmt.Println("a lost lock: the work was stopped, and a late write is refused")

	fence, err := acquire(pool, "ann", 5*time.Second, 0)
	must(err == nil)
	need(ask(operator, 0, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
	again, err := acquire(pool, "ann", 5*time.Second, 0)
	must(err == nil && again == fence)
	fmt.Println("connection broken while holding: the same number", fence)

	done := make(chan error)
	go func() { done <- sell(pool, "bob", "sword", 90) }()
	waiter := whoWaits(operator, "")
	need(ask(operator, 0, "CLIENT", "KILL", "ID", waiter))
	whoWaits(operator, waiter)
	need(ask(pool, 0, "LOCK.RELEASE", lockName, "ann"))
	must(<-done == nil)
	fmt.Println("connection broken while waiting: asked again, and served")
}

func whoWaits(pool *redis.Pool, otherThan string) string {
	blocked := regexp.MustCompile(`(?m)^id=(\d+).* flags=b`)
	for {
		clients, err := redis.String(ask(pool, 0, "CLIENT", "LIST"))
		must(err == nil)
		if found := blocked.FindStringSubmatch(clients); found != nil && found[1] != otherThan {
			return found[1]
		}
		time.Sleep(time.Millisecond)
	}
}

func need(_ interface{}, err error) {
	if err != nil {
		log.Panic(err)
	}
}

func must(ok bool) {
	if !ok {
		log.Panic("this must be true")
	}
}
