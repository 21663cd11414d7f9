// Package redislock takes locks by the native commands of the redis-lock module for Redis and Valkey. Waiters are in a
// queue in the server and get the lock in order, and each grant has a fencing token. On a server without the module it
// takes the same locks by SET NX, with less.
//
//	locks := redislock.New(goredis.New(rdb)) // once in a process
//	hold, err := locks.Lock(ctx, "market", 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer hold.Release(ctx)
//
// The key in the server is the bare name.
package redislock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Client takes locks on one server or cluster. It may be used by many goroutines.
type Client struct {
	server   server
	settings settings
	prefix   string
	named    named
	plain    neighbours

	mu         sync.Mutex
	background int           // goroutines that still release something
	idle       chan struct{} // closed when there is none any more
}

// New returns a client. The options hold for all its locks; those of a single lock come after them.
func New(doer Doer, options ...Option) *Client {
	c := &Client{settings: settings{retryInterval: 100 * time.Millisecond}, prefix: hostAndPid()}
	c.server.doer = doer
	c.server.connector, _ = doer.(Connector)
	c.server.pipeliner, _ = doer.(Pipeliner)
	c.server.workers.idle = make(chan func())
	c.server.blocked = make(chan struct{}, maxBlocked)
	for _, option := range options {
		option(&c.settings)
	}
	return c
}

// Lock waits for the lock of this key until it has it or ctx ends; then the error is [ErrNotObtained] and that of ctx.
// The hold expires ttl after the grant, unless it is renewed.
//
// If the server can't be reached, requests are retried for ten seconds before Lock fails. A server that is there but does
// not reply can't be told from a long wait: then only ctx ends it.
func (c *Client) Lock(ctx context.Context, key string, ttl time.Duration, options ...Option) (*Hold, error) {
	return c.LockAll(ctx, []string{key}, ttl, options...)
}

// TryLock tries once, and returns [ErrNotObtained] if others hold the lock or wait for it. If the server can't be reached
// or does not reply, it fails after five seconds, or when ctx ends.
func (c *Client) TryLock(ctx context.Context, key string, ttl time.Duration, options ...Option) (*Hold, error) {
	return c.TryLockAll(ctx, []string{key}, ttl, options...)
}

// LockAll is [Client.Lock] for several keys: all of them in one instant, with one fencing token, or none. In a cluster
// they need a common part in braces. Needs the module.
func (c *Client) LockAll(ctx context.Context, keys []string, ttl time.Duration, options ...Option) (*Hold, error) {
	l, err := c.lock(keys, ttl, options)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx, l, true)
}

// TryLockAll is [Client.TryLock] for several keys, as with [Client.LockAll].
func (c *Client) TryLockAll(ctx context.Context, keys []string, ttl time.Duration, options ...Option) (*Hold, error) {
	l, err := c.lock(keys, ttl, options)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx, l, false)
}

func (c *Client) lock(keys []string, ttl time.Duration, options []Option) (*lock, error) {
	l := &lock{settings: c.settings, ttl: ttl}
	for _, option := range options {
		option(&l.settings)
	}
	if err := l.settings.check(); err != nil {
		return nil, err
	}
	if err := checkTTL(ttl); err != nil {
		return nil, err
	}
	for _, key := range keys {
		if key == "" {
			return nil, invalid("an empty key")
		}
		if !slices.Contains(l.keys, key) {
			l.keys = append(l.keys, key)
		}
	}
	if len(l.keys) == 0 {
		return nil, invalid("no key")
	}
	if l.group != nil && len(l.keys) > 1 {
		return nil, invalid("Fair with several keys")
	}
	if l.settings.owner != nil {
		l.owner = *l.settings.owner
	} else {
		prefix := c.prefix
		if l.ownerPrefix != nil {
			prefix = *l.ownerPrefix
		}
		var err error
		if l.owner, err = newOwner(prefix); err != nil {
			return nil, err
		}
	}
	if l.group != nil {
		l.owner = *l.group + ":" + l.owner
	}
	switch {
	case len(l.owner) > longestOwner:
		return nil, invalid("an owner of %d bytes, with its group; it must have 1 to %d", len(l.owner), longestOwner)
	case l.waitsForReplicas() && c.server.pipeliner == nil:
		return nil, invalid("Replicas with this client, which is no Pipeliner: others would wait behind it")
	case c.named.isSpent(l):
		return nil, invalid("the owner %s is still being released in the background; make a new one", l.owner)
	}
	return l, nil
}

// Wait waits until nothing is released in the background any more, or ctx ends: before a program exits. What is left
// then expires by itself.
func (c *Client) Wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		idle := c.idle
		c.mu.Unlock()
		if idle == nil {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return whyEnded(ctx)
		}
	}
}

func (c *Client) inBackground(work func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.background == 0 {
		c.idle = make(chan struct{})
	}
	c.background++
	go func() {
		work()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.background--
		if c.background == 0 {
			close(c.idle)
			c.idle = nil
		}
	}()
}
