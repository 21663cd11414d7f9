// Package redsync is redsync's API on one server, as far as ours has the same, for its own tests. They read and write
// fields of a Mutex, so that these have their names.
package redsync

import (
	"context"
	"errors"
	"time"

	peer "github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"redislock/v2"
)

type (
	ErrTaken     = peer.ErrTaken
	ErrNodeTaken = peer.ErrNodeTaken
)

// A pool is one of theirs, with the locks of the same client.
type pool struct {
	redis.Pool
	locks *redislock.Client
}

type Redsync struct{ pools []redis.Pool }

func New(pools ...redis.Pool) *Redsync { return &Redsync{pools} }

type Mutex struct {
	name                       string
	expiry                     time.Duration
	tries                      int
	delayFunc                  func(tries int) time.Duration
	genValueFunc               func() (string, error)
	driftFactor, timeoutFactor float64 // of several servers
	quorum                     int
	value                      string
	setNXOnExtend              bool // a lost hold does not come back
	pools                      []redis.Pool

	hold *redislock.Hold
}

type Option func(*Mutex)

func WithExpiry(expiry time.Duration) Option { return func(m *Mutex) { m.expiry = expiry } }
func WithTries(tries int) Option             { return func(m *Mutex) { m.tries = tries } }
func WithValue(value string) Option          { return func(m *Mutex) { m.value = value } }

func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		name: name, expiry: 8 * time.Second, tries: 32, genValueFunc: genValue, quorum: 1, pools: r.pools,
		delayFunc: func(int) time.Duration { return 50 * time.Millisecond },
	}
	for _, option := range options {
		option(m)
	}
	return m
}

// genValue leaves it to the package to choose an owner.
func genValue() (string, error) { return "", nil }

func (m *Mutex) Name() string  { return m.name }
func (m *Mutex) Value() string { return m.value }

func (m *Mutex) Until() time.Time {
	if m.hold == nil {
		return time.Time{}
	}
	return time.Now().Add(m.hold.TTL())
}

func (m *Mutex) TryLock() error                             { return m.TryLockContext(context.Background()) }
func (m *Mutex) TryLockContext(ctx context.Context) error   { return m.lock(ctx, 1) }
func (m *Mutex) Lock() error                                { return m.LockContext(context.Background()) }
func (m *Mutex) LockContext(ctx context.Context) error      { return m.lock(ctx, m.tries) }
func (m *Mutex) Unlock() (bool, error)                      { return m.UnlockContext(context.Background()) }
func (m *Mutex) Extend() (bool, error)                      { return m.ExtendContext(context.Background()) }
func (m *Mutex) Valid() (bool, error)                       { return m.hold != nil && m.hold.Held(), nil }
func (m *Mutex) ValidContext(context.Context) (bool, error) { return m.Valid() }

// lock waits as long as so many tries would take.
func (m *Mutex) lock(ctx context.Context, tries int) error {
	value, err := m.genValueFunc()
	if err != nil {
		return err
	}
	var options []redislock.Option
	if value != "" {
		options = append(options, redislock.Owner(value))
	}
	locks := m.pools[0].(*pool).locks
	take := locks.TryLock
	if tries > 1 {
		var wait time.Duration
		for i := 1; i < tries; i++ {
			wait += m.delayFunc(i)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
		take = locks.Lock
	}
	hold, err := take(ctx, m.name, m.expiry, options...)
	if errors.Is(err, redislock.ErrNotObtained) {
		return &ErrTaken{Nodes: []int{0}}
	} else if err != nil {
		return err
	}
	m.hold, m.value = hold, hold.Owner()
	return nil
}

func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	if m.hold == nil {
		return false, peer.ErrLockAlreadyExpired
	}
	err := m.hold.Release(ctx)
	if errors.Is(err, redislock.ErrLost) {
		err = peer.ErrLockAlreadyExpired
	}
	return err == nil, err
}

func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	if m.hold == nil {
		return false, peer.ErrExtendFailed
	}
	err := m.hold.Refresh(ctx, m.expiry)
	if errors.Is(err, redislock.ErrLost) {
		err = peer.ErrExtendFailed
	}
	return err == nil, err
}
