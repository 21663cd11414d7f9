// The market under a lock, with redigo. check.go beside it runs it.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const market, lock = "{market}:goods", "{market}:lock"
const block = 10 * time.Second // for how long to wait for the lock

var errBusy = errors.New("others have the market")
var errLost = errors.New("the hold ended before the work did: another owner may have worked beside us")

// redigo reads without a timeout unless you set one: make it longer than the longest BLOCK (or use redis.DoWithTimeout for
// the command that waits). A goroutine that waits has a connection of its own: if you set MaxActive let there be more
// of them than can ever wait, or the holder finds none to release by.
func connect(port string) *redis.Pool {
	return &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "127.0.0.1:"+port, redis.DialReadTimeout(block+5*time.Second))
	}}
}

// ask retries on another connection when one breaks: same owner, so same fencing token. redigo itself never does.
// What the server has said stands, errors too.
func ask(pool *redis.Pool, command string, args ...any) (answer any, err error) {
	for try := 0; try < 15; try++ { // more than MaxIdle: they may all be broken
		conn := pool.Get()
		answer, err = conn.Do(command, args...)
		conn.Close()
		if refused := redis.Error(""); err == nil || errors.As(err, &refused) {
			break
		}
	}
	return answer, err
}

// withLock gives up at any moment when ctx says so.
func withLock(ctx context.Context, pool *redis.Pool, ttl, wait time.Duration, work func(owner string) error) (err error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	args := redis.Args{lock, hex.EncodeToString(id), ttl.Milliseconds()} // a fresh owner for each piece of work
	if wait > 0 {
		args = args.Add("BLOCK", wait.Milliseconds())
	}
	var fence any
	defer func() {
		// The one way out, whatever has become of the request: a worker may give up in the moment of the grant.
		// Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
		if held, failed := redis.Bool(ask(pool, "LOCK.RELEASE", args[:2]...)); failed == nil && !held && fence != nil {
			err = errLost
		} else if err == nil {
			err = failed
		}
	}()
	answered := make(chan struct{})
	stopped := giveUp(ctx, pool, args[:2], answered)
	fence, err = ask(pool, "LOCK.ACQUIRE", args...)
	close(answered)
	<-stopped
	if ctx.Err() != nil {
		fence = nil
		return ctx.Err()
	} else if err != nil {
		return err
	} else if fence == nil {
		return errBusy
	}
	return work(args[1].(string))
}

// giveUp ends the wait when ctx says so: a RELEASE ends what its owner waits for too, by whatever connection, and then
// ACQUIRE is answered with nil. It says so again, because it may overtake the ACQUIRE.
func giveUp(ctx context.Context, pool *redis.Pool, lockAndOwner redis.Args, answered <-chan struct{}) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-answered:
			return
		case <-ctx.Done():
		}
		for {
			_, _ = ask(pool, "LOCK.RELEASE", lockAndOwner...)
			select {
			case <-answered:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return stopped
}

// write is all or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY),
// because ask may ask twice.
func write(pool *redis.Pool, owner string, values map[string]any) error {
	_, err := ask(pool, "LOCK.GUARD", redis.Args{lock, owner, "HSET", market}.AddFlat(values)...)
	return err
}

func sell(ctx context.Context, pool *redis.Pool, seller, item string, price int) error {
	return withLock(ctx, pool, 5*time.Second, 0, func(owner string) error { // tries once
		return write(pool, owner, map[string]any{item + ":owner": seller, item + ":price": price})
	})
}

func buy(ctx context.Context, pool *redis.Pool, buyer, item string) (bought bool, err error) {
	err = withLock(ctx, pool, 5*time.Second, block, func(owner string) error { // waits in line
		seller, err := redis.String(ask(pool, "HGET", market, item+":owner"))
		if err != nil {
			return err
		}
		now, err := redis.Ints(ask(pool, "HMGET", market, item+":price", buyer+":funds", seller+":funds"))
		if err != nil || now[0] == 0 || now[0] > now[1] {
			return err
		}
		bought = true
		return write(pool, owner, map[string]any{
			buyer + ":funds": now[1] - now[0], seller + ":funds": now[2] + now[0],
			item + ":owner": buyer, item + ":price": 0,
		})
	})
	return bought && err == nil, err
}

func takeStock(ctx context.Context, pool *redis.Pool, shelves int) error {
	return withLock(ctx, pool, time.Second, block, func(owner string) error {
		for ; shelves > 0; shelves-- {
			time.Sleep(300 * time.Millisecond) // longer than the ttl in all: so it renews, and stops when that is too late
			if held, err := redis.Bool(ask(pool, "LOCK.RENEW", lock, owner, 1000)); err != nil {
				return err
			} else if !held {
				return errLost
			}
		}
		return nil
	})
}
