// Package redislock is bsm/redislock's API, as far as ours has the same, for its own tests.
package redislock

import (
	"context"
	"errors"
	"time"

	peer "github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"redislock/goredis/v2"
	"redislock/v2"
)

var (
	ErrNotObtained = peer.ErrNotObtained
	ErrLockNotHeld = peer.ErrLockNotHeld
)

type Client struct{ locks *redislock.Client }

func New(client redis.UniversalClient) *Client {
	return &Client{redislock.New(goredis.New(client))}
}

type Options struct {
	RetryStrategy RetryStrategy
	Metadata      string
	Token         string
}

// A RetryStrategy is how long one waits in all: its pauses are those of the package.
type RetryStrategy time.Duration

func LinearBackoff(pause time.Duration) RetryStrategy { return RetryStrategy(pause) }

func LimitRetry(s RetryStrategy, times int) RetryStrategy { return s * RetryStrategy(times) }

type Lock struct {
	key  string
	hold *redislock.Hold
}

func Obtain(ctx context.Context, client redis.UniversalClient, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	return New(client).Obtain(ctx, key, ttl, opt)
}

func (c *Client) Obtain(ctx context.Context, key string, ttl time.Duration, opt *Options) (*Lock, error) {
	var options []redislock.Option
	if opt != nil && opt.Token != "" {
		options = append(options, redislock.Owner(opt.Token))
	}
	take := c.locks.TryLock
	if opt != nil && opt.RetryStrategy > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(opt.RetryStrategy))
		defer cancel()
		take = c.locks.Lock
	}
	hold, err := take(ctx, key, ttl, options...)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, ErrNotObtained
	} else if err != nil {
		return nil, err
	}
	return &Lock{key, hold}, nil
}

func (l *Lock) Key() string   { return l.key }
func (l *Lock) Token() string { return l.hold.Owner() }

// Metadata is nothing that our locks have.
func (l *Lock) Metadata() string { return "" }

func (l *Lock) TTL(context.Context) (time.Duration, error) { return l.hold.TTL(), nil }

func (l *Lock) Refresh(ctx context.Context, ttl time.Duration, _ *Options) error {
	return replaced(l.hold.Refresh(ctx, ttl), ErrNotObtained)
}

func (l *Lock) Release(ctx context.Context) error {
	if l == nil {
		return ErrLockNotHeld
	}
	return replaced(l.hold.Release(ctx), ErrLockNotHeld)
}

// replaced is their error for ours of a hold that has ended.
func replaced(err, theirs error) error {
	if errors.Is(err, redislock.ErrLost) || errors.Is(err, redislock.ErrReleased) {
		return theirs
	}
	return err
}
