// Package goredis lets go-redis v9 send the commands of package redislock.
package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redislock/v2"
)

// A Client is a [redislock.Connector].
type Client struct {
	client redis.UniversalClient
	own    *redis.Client // nil if no connection can be had for waiting
}

// New returns what [redislock.New] takes.
//
// Of a *redis.Client, also of one for Sentinel, it takes the options, and makes connections of its own: without read
// timeout, because a waiter waits for long, and without retries, because go-redis doesn't say that it has sent a command
// twice. Hooks are not taken along.
//
// A cluster or ring is used as it is. There waiters poll, and go-redis retries by itself when a connection breaks: a
// guarded command may run twice, and a release whose reply was lost is reported as [redislock.ErrLost].
func New(client redis.UniversalClient) *Client {
	c := &Client{client: client}
	single, ok := client.(*redis.Client)
	if !ok {
		return c
	}
	options := *single.Options()
	options.ReadTimeout = -1 // the context says for how long to wait
	if options.WriteTimeout == 0 {
		options.WriteTimeout = -1 // that is what 0 means once a client has the options
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1
	options.PoolSize = 1024
	options.MaxActiveConns = 0 // waiters would take all of them, and leave none for a release
	options.MinIdleConns = 0
	options.MaxIdleConns = 0
	options.ConnMaxIdleTime = time.Minute
	options.PushNotificationProcessor = nil // that one belongs to the client
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	options.Dialer = keepingAlive(options.Dialer)
	c.own = redis.NewClient(&options)
	c.client = c.own
	return c
}

// Do sends a command.
func (c *Client) Do(ctx context.Context, args ...any) (any, error) {
	cmd := redis.NewCmd(ctx, args...)
	if name, ok := args[0].(string); ok && strings.HasPrefix(name, "LOCK.M") {
		cmd.SetFirstKeyPos(2) // behind the number of keys
	}
	_ = c.client.Process(ctx, cmd)
	return result(cmd)
}

// Connect returns a connection that nothing else uses.
func (c *Client) Connect(context.Context, string) (redislock.Conn, error) {
	if c.own == nil {
		return nil, redislock.ErrNoConnection
	}
	return conn{c.own.Conn()}, nil
}

// Pipeline sends commands over one connection of the pool. In a cluster or ring it sends no more than one.
func (c *Client) Pipeline(ctx context.Context, commands ...[]any) ([]redislock.Reply, error) {
	if c.own == nil {
		if len(commands) > 1 {
			return nil, redislock.ErrNoConnection
		}
		value, err := c.Do(ctx, commands[0]...)
		return []redislock.Reply{{Value: value, Err: err}}, nil
	}
	pipe := c.own.Pipeline()
	for _, args := range commands {
		pipe.Do(ctx, args...)
	}
	sent, _ := pipe.Exec(ctx)
	replies := make([]redislock.Reply, len(sent))
	for i, cmd := range sent {
		replies[i].Value, replies[i].Err = result(cmd.(*redis.Cmd))
	}
	return replies, nil
}

// Close closes the connections that New has made. The client that was given stays open.
func (c *Client) Close() error {
	if c.own == nil {
		return nil
	}
	return c.own.Close()
}

type conn struct{ *redis.Conn }

func (c conn) Do(ctx context.Context, args ...any) (any, error) {
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, cmd)
	return result(cmd)
}

func result(cmd *redis.Cmd) (any, error) {
	reply, err := cmd.Result()
	var refused redis.Error
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, redis.Nil):
		return nil, nil
	case errors.Is(err, redis.ErrClosed):
		return nil, redislock.ErrClosed
	case errors.As(err, &refused):
		return nil, redislock.ServerError(refused.Error())
	}
	return nil, err
}

// keepingAlive finds out sooner that the server's host has gone: go-redis asks only every five minutes.
func keepingAlive(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		plain := conn
		if secured, ok := conn.(*tls.Conn); ok {
			plain = secured.NetConn()
		}
		if tcp, ok := plain.(*net.TCPConn); ok {
			_ = tcp.SetKeepAlivePeriod(15 * time.Second)
		}
		return conn, nil
	}
}
