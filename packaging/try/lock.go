// The unpacked modules lock on the server at PORT.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"redislock/goredis/v2"
	"redislock/v2"
)

func main() {
	ctx := context.Background()
	locks := redislock.New(goredis.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("PORT")})))
	hold, err := locks.Lock(ctx, "tried:go", 10*time.Second)
	if err != nil || hold.Fence() == 0 {
		log.Fatal("not held: ", err)
	}
	if _, err := locks.TryLock(ctx, "tried:go", time.Second); !errors.Is(err, redislock.ErrNotObtained) {
		log.Fatal("two have the lock: ", err)
	}
	if _, err := hold.Guard(ctx, "SET", "tried:price", 5); err != nil {
		log.Fatal(err)
	}
	if err := hold.Release(ctx); err != nil {
		log.Fatal("not released: ", err)
	}
	fmt.Println("  Go: locks")
}
