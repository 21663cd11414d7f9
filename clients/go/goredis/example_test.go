package goredis_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"redislock/goredis/v2"
	"redislock/v2"
)

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	locks := redislock.New(goredis.New(rdb)) // once in a process

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // for how long to wait
	defer cancel()
	hold, err := locks.Lock(ctx, "market", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(context.Background())

	// Data in the same server: runs only while the lock is held.
	if _, err := hold.Guard(ctx, "SET", "price", 5); err != nil {
		log.Fatal(err)
	}
}

// What is outside of the server refuses a holder that comes too late, by its fencing token.
func ExampleNew_fencing() {
	var locks *redislock.Client
	var shop *sql.DB
	ctx := context.Background()

	hold, err := locks.Lock(ctx, "market", 10*time.Second, redislock.RequireModule())
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)
	_, err = shop.ExecContext(ctx, "UPDATE items SET price = 5, fence = $1 WHERE name = 'sword' AND fence <= $1", hold.Fence())
	if err != nil {
		log.Fatal(err)
	}
}

// Work that takes longer than the ttl renews its hold, and stops if it is lost.
func ExampleNew_renewing() {
	var locks *redislock.Client
	work := func(context.Context) error { return nil }

	hold, err := locks.TryLock(context.Background(), "report", 30*time.Second, redislock.RenewFor(time.Hour))
	if errors.Is(err, redislock.ErrNotObtained) {
		return // another process does it
	} else if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(context.Background())
	ctx, cancel := hold.Context(context.Background()) // cancelled if the hold is lost
	defer cancel()
	if err := work(ctx); err != nil {
		log.Print(err, context.Cause(ctx))
	}
}
