package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redislock/v2"
)

// A client comes from one of the packages goredis, redigo and rueidis.
var client redislock.Doer = &scripted{replies: map[string][]any{"LOCK.ACQUIRE": {int64(1795236375515000)}, "LOCK.RELEASE": {int64(1)}}}

func Example() {
	locks := redislock.New(client)

	ctx := context.Background()
	hold, err := locks.Lock(ctx, "market", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(hold.Held(), hold.Fence())
	fmt.Println(hold.Release(ctx))
	fmt.Println(hold.Err())
	// Output:
	// true 1795236375515000
	// <nil>
	// redislock: the lock was released
}

func ExampleClient_Lock_semaphore() {
	locks := redislock.New(client)

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// One of three, and not behind ten others.
	hold, err := locks.Lock(ctx, "printer", 10*time.Second, redislock.Limit(3), redislock.MaxQueue(10))
	switch {
	case errors.Is(err, redislock.ErrQueueFull), errors.Is(err, redislock.ErrNotObtained):
		fmt.Println("busy")
	case err == nil:
		defer hold.Release(context.Background())
		fmt.Println("printing")
	}
	// Output: printing
}
