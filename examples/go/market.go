// The market under a lock, with redigo. check.go beside it runs it.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const market, lock = "market", "{market}:lock"
const block = 10 * time.Second // for how long to wait for the lock

var errBusy = errors.New("others have the market")
var errLost = errors.New("the hold ended before the work did: somebody else may have worked beside us")

// redigo reads for ever unless you say otherwise: then say longer than the longest BLOCK (or use redis.DoWithTimeout for
// the command that waits). A goroutine that waits has a connection of its own: if you set MaxActive let there be more
// of them than can ever wait, or the holder finds none to release by.
func connect(port string) *redis.Pool {
	return &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "127.0.0.1:"+port, redis.DialReadTimeout(block+5*time.Second))
	}}
}

// ask asks again by another connection when one breaks: same owner, so same fencing number. redigo itself never does.
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

func withLock(pool *redis.Pool, ttl, wait time.Duration, work func(owner string) error) (err error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	args := redis.Args{lock, hex.EncodeToString(id), ttl.Milliseconds()} // a fresh owner for each piece of work
	if wait > 0 {
		args = args.Add("BLOCK", wait.Milliseconds())
	}
	if fence, err := ask(pool, "LOCK.ACQUIRE", args...); err != nil {
		return err
	} else if fence == nil {
		return errBusy
	}
	defer func() {
		// Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
		if held, failed := redis.Bool(ask(pool, "LOCK.RELEASE", args[:2]...)); failed == nil && !held {
			err = errLost
		} else if err == nil {
			err = failed
		}
	}()
	return work(args[1].(string))
}

// write is all or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY),
// because ask may ask twice.
func write(pool *redis.Pool, owner string, values map[string]any) error {
	_, err := ask(pool, "LOCK.GUARD", redis.Args{lock, owner, "HSET", market}.AddFlat(values)...)
	return err
}

func sell(pool *redis.Pool, seller, item string, price int) error {
	return withLock(pool, 5*time.Second, 0, func(owner string) error { // tries once
		return write(pool, owner, map[string]any{item + ":owner": seller, item + ":price": price})
	})
}

func buy(pool *redis.Pool, buyer, item string) (bought bool, err error) {
	err = withLock(pool, 5*time.Second, block, func(owner string) error { // waits in line
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

func takeStock(pool *redis.Pool, shelves int) error {
	return withLock(pool, time.Second, block, func(owner string) error {
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
