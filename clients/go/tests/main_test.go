// Package tests holds the tests of redislock and its adapters, on real servers, behind a proxy. REDIS_LOCK_MODULE names
// the module, and REDIS_SERVER the server, if it is not redis-server.
package tests

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	if module() == "" {
		fmt.Fprintln(os.Stderr, "REDIS_LOCK_MODULE must name the module's file")
		os.Exit(1)
	}
	redis.SetLogger(silent{}) // go-redis writes down each connection that breaks, and here most do
	os.Exit(m.Run())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...interface{}) {}
