// Package redigo lets a pool of redigo send the commands of package redislock.
package redigo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"redislock/v2"
)

// A Client is a [redislock.Connector].
type Client struct{ shared, own *redis.Pool }

// New returns what [redislock.New] takes. Waiters and guarded commands have connections beside the pool, which are
// dialled in the same way.
func New(pool *redis.Pool) *Client {
	return &Client{shared: pool, own: &redis.Pool{
		Dial:                pool.Dial,
		DialContext:         pool.DialContext,
		TestOnBorrow:        pool.TestOnBorrow,
		TestOnBorrowContext: pool.TestOnBorrowContext,
		MaxIdle:             16,
		IdleTimeout:         time.Minute,
	}}
}

// Do sends a command by a connection of the pool.
func (c *Client) Do(ctx context.Context, args ...any) (any, error) { return once(ctx, c.shared, args) }

// Connect returns a connection beside the pool.
func (c *Client) Connect(ctx context.Context, _ string) (redislock.Conn, error) {
	return get(ctx, c.own)
}

// Pipeline sends commands over one connection beside the pool.
func (c *Client) Pipeline(ctx context.Context, commands ...[]any) ([]redislock.Reply, error) {
	got, err := get(ctx, c.own)
	if err != nil {
		return nil, err
	}
	defer got.Close()
	own := got.(conn)
	for _, args := range commands {
		name, ok := args[0].(string)
		if !ok {
			return nil, errName
		}
		if err := own.Send(name, args[1:]...); err != nil {
			return nil, err
		}
	}
	if err := own.Flush(); err != nil {
		return nil, err
	}
	replies := make([]redislock.Reply, len(commands))
	for i := range commands {
		timeout, err := limit(ctx)
		if err != nil {
			return nil, err
		}
		replies[i].Value, replies[i].Err = result(redis.ReceiveWithTimeout(own.Conn, timeout))
	}
	return replies, nil
}

// limit is the time for the next reply; 0: none. The pool's own read timeout does not count.
func limit(ctx context.Context) (time.Duration, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0, nil
	}
	if timeout := time.Until(deadline); timeout > 0 {
		return timeout, nil
	}
	return 0, context.DeadlineExceeded
}

var errName = fmt.Errorf("%w: the name of a command must be a string", redislock.ErrInvalid)

// Close closes the connections beside the pool. The pool that was given stays open.
func (c *Client) Close() error { return c.own.Close() }

func once(ctx context.Context, pool *redis.Pool, args []any) (any, error) {
	conn, err := get(ctx, pool)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(ctx, args...)
}

func get(ctx context.Context, pool *redis.Pool) (redislock.Conn, error) {
	dialled, err := pool.GetContext(ctx)
	switch {
	case err == nil:
		return conn{dialled}, nil
	case err.Error() == "redigo: get on closed pool": // it has no name
		return nil, redislock.ErrClosed
	}
	return nil, err
}

type conn struct{ redis.Conn }

func (c conn) Do(ctx context.Context, args ...any) (any, error) {
	timeout, err := limit(ctx)
	if err != nil {
		return nil, err
	}
	name, ok := args[0].(string)
	if !ok {
		return nil, errName
	}
	return result(redis.DoWithTimeout(c.Conn, timeout, name, args[1:]...))
}

func result(reply any, err error) (any, error) {
	var refused redis.Error
	if errors.As(err, &refused) {
		return nil, redislock.ServerError(refused)
	}
	return reply, err
}
