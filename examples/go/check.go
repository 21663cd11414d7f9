// What must come of market.go. PORT says where a server with the module is (`make run` starts one).
//
//	apt install golang-go golang-github-gomodule-redigo-dev, or: go get github.com/gomodule/redigo
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "6379"
	}
	ctx, pool, operator := context.Background(), connect(port), connect(port)
	need(ask(pool, "DEL", market, lock))
	need(ask(pool, "HSET", market, "ann:funds", 0, "bob:funds", 100))

	must(sell(ctx, pool, "ann", "sword", 80) == nil)
	bought, err := buy(ctx, pool, "bob", "sword")
	must(bought && err == nil)
	bought, err = buy(ctx, pool, "bob", "sword")
	must(!bought && err == nil)
	funds, err := redis.Ints(ask(pool, "HMGET", market, "ann:funds", "bob:funds"))
	must(err == nil && funds[0] == 80 && funds[1] == 20)
	fmt.Println("bob has bought the sword")

	need(ask(pool, "LOCK.ACQUIRE", lock, "a worker that dies", 5500))
	must(sell(ctx, pool, "bob", "sword", 90) == errBusy)
	fmt.Println("tried, and did not wait")
	began := time.Now()
	bought, err = buy(ctx, pool, "ann", "sword")
	must(!bought && err == nil && time.Since(began) > 5*time.Second)
	fmt.Println("waited for more than 5 seconds")

	must(takeStock(ctx, pool, 5) == nil)
	fmt.Println("renewed a long job")

	must(withLock(ctx, pool, 50*time.Millisecond, 0, func(owner string) error {
		time.Sleep(100 * time.Millisecond)
		err := write(pool, owner, map[string]any{"bob:funds": 1000000})
		must(err != nil && strings.HasPrefix(err.Error(), "NOTOWNER"))
		return err
	}) == errLost)
	fmt.Println("a lost lock: the write was refused, and RELEASE said so")

	fence, err := redis.Int64(ask(pool, "LOCK.ACQUIRE", lock, "ann", 5000))
	must(err == nil)
	need(ask(operator, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
	again, err := redis.Int64(ask(pool, "LOCK.ACQUIRE", lock, "ann", 5000))
	must(err == nil && again == fence)
	fmt.Println("connection broken while holding: the same number", fence)

	done := make(chan error)
	go func() { done <- takeStock(ctx, pool, 1) }()
	waiter := whoWaits(operator, "")
	need(ask(operator, "CLIENT", "KILL", "ID", waiter))
	whoWaits(operator, waiter)
	need(ask(pool, "LOCK.RELEASE", lock, "ann"))
	must(<-done == nil)
	fmt.Println("connection broken while waiting: asked again, and served")

	// Another owner's hold ends at the very moment in which a worker gives up.
	givenUp := 0
	for round := 0; round < 1000; round++ {
		moment := time.Duration(1+rand.Intn(6)) * time.Millisecond
		need(ask(operator, "LOCK.ACQUIRE", lock, "another owner", moment.Milliseconds()))
		patience := moment + time.Duration(rand.Intn(2000)-500)*time.Microsecond
		impatient, cancel := context.WithTimeout(ctx, patience)
		err := withLock(impatient, pool, time.Minute, block, func(string) error { return nil })
		cancel()
		must(err == nil || errors.Is(err, context.DeadlineExceeded))
		if err != nil {
			givenUp++
		}
		for end := time.Now().Add(5 * time.Second); ; {
			info, err := ask(operator, "LOCK.INFO", lock)
			must(err == nil && time.Now().Before(end))
			if info == nil {
				break
			}
		}
	}
	must(givenUp > 100)
	fmt.Println(givenUp, "of 1000 gave up about the moment of their grant, and left nothing behind")
}

func whoWaits(pool *redis.Pool, otherThan string) string {
	blocked := regexp.MustCompile(`(?m)^id=(\d+).* flags=b`)
	for {
		clients, err := redis.String(ask(pool, "CLIENT", "LIST"))
		must(err == nil)
		if found := blocked.FindStringSubmatch(clients); found != nil && found[1] != otherThan {
			return found[1]
		}
		time.Sleep(time.Millisecond)
	}
}

func need(_ any, err error) {
	if err != nil {
		log.Panic(err)
	}
}

func must(ok bool) {
	if !ok {
		log.Panic("this must be true")
	}
}
