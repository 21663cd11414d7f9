package redislock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// An Option changes how a lock is taken. [New] takes those that hold for all locks of a client.
type Option func(*settings)

type settings struct {
	shared         bool
	limit          *int64
	group          *string
	per            *int64
	replicas       *int64
	maxQueue       *int64
	renew          bool
	renewFor       *time.Duration // nil: until the release
	owner          *string
	ownerPrefix    *string
	queue          bool
	retryInterval  time.Duration
	requiresModule bool
	logger         *slog.Logger
}

// Shared shares the lock with others that also share it: readers. Needs the module.
func Shared() Option { return func(s *settings) { s.shared = true } }

// Limit shares the lock while fewer than n others do: a semaphore. Needs the module.
func Limit(n int64) Option { return func(s *settings) { s.limit = &n } }

// Fair shares a [Limit] fairly between groups, such as tenants: of those that wait, the one that holds fewest is served
// next. The group stands before the owner, as in group:host:pid:uuid. Needs the module, from 2.0 on.
func Fair(group string) Option { return func(s *settings) { s.group = &group } }

// Per lets n of each [Fair] group hold the lock at most.
func Per(n int64) Option { return func(s *settings) { s.per = &n } }

// Replicas grants and renews a hold only once n replicas have acknowledged it; else the error is [ErrNoReplicas]. Needs
// version 2.0 of the module, or no module: then it sends WAIT. Without this the server's lock.replicas counts.
func Replicas(n int64) Option { return func(s *settings) { s.replicas = &n } }

// MaxQueue does not wait behind n others or more: [ErrQueueFull] is returned at once. Needs the module.
func MaxQueue(n int64) Option { return func(s *settings) { s.maxQueue = &n } }

// Renew renews the hold in the background, at a third of its ttl, until it is released.
func Renew() Option { return func(s *settings) { s.renew, s.renewFor = true, nil } }

// RenewFor is [Renew], but ends so long after the grant: work that hangs does not keep the lock.
func RenewFor(limit time.Duration) Option {
	return func(s *settings) { s.renew, s.renewFor = true, &limit }
}

// Owner is the owner of the hold, instead of a fresh one: one owner for the different locks that one piece of work
// takes, so that the server finds deadlocks ([ErrDeadlock]).
//
// To a lock, two workers with one owner are one worker, and both hold it. An owner that has released a lock, or given up
// waiting for it, is spent: for the next attempt at that lock make a new one.
func Owner(owner string) Option { return func(s *settings) { s.owner = &owner } }

// OwnerPrefix stands before the UUID of each owner, as in prefix:uuid, instead of host:pid.
func OwnerPrefix(prefix string) Option { return func(s *settings) { s.ownerPrefix = &prefix } }

// Queue waits by polling for a place in the queue, over the connections that other commands use, instead of by a
// connection that waits (BLOCK).
func Queue() Option { return func(s *settings) { s.queue = true } }

// RetryInterval is the longest pause between two requests, where a client polls: 100 milliseconds by default. The first
// pauses are shorter.
func RetryInterval(pause time.Duration) Option { return func(s *settings) { s.retryInterval = pause } }

// RequireModule returns [ErrModuleMissing] on a server without the module, instead of taking the lock by SET NX: for
// work that relies on the order of the waiters or on the fencing token.
func RequireModule() Option { return func(s *settings) { s.requiresModule = true } }

// Logger gets a warning, once for a client, if the server has not loaded the module. Without this it goes to
// [slog.Default].
func Logger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// longest is the greatest time that the server can add to its clock, but for those that Go can't express.
const longest = 100 * 365 * 24 * time.Hour

// longestOwner is in bytes.
const longestOwner = 1024

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond || ttl > longest {
		return invalid("a ttl of %v; it must be from a millisecond to a hundred years", ttl)
	}
	return nil
}

func (s *settings) check() error {
	switch {
	case s.shared && s.limit != nil:
		return invalid("Shared and Limit exclude each other")
	case s.limit != nil && *s.limit < 1:
		return invalid("a limit of %d; it must be at least 1", *s.limit)
	case s.group != nil && (*s.group == "" || strings.Contains(*s.group, ":")):
		return invalid("the group %q; it must not be empty, nor have a colon, which ends it in the owner", *s.group)
	case s.group != nil && s.limit == nil:
		return invalid("Fair without Limit")
	case s.per != nil && s.group == nil:
		return invalid("Per without Fair")
	case s.per != nil && *s.per < 1:
		return invalid("Per of %d; it must be at least 1", *s.per)
	case s.replicas != nil && (*s.replicas < 0 || *s.replicas > 64):
		return invalid("Replicas of %d; it must be 0 to 64", *s.replicas)
	case s.maxQueue != nil && *s.maxQueue < 0:
		return invalid("a MaxQueue of %d", *s.maxQueue)
	case s.renewFor != nil && *s.renewFor <= 0:
		return invalid("RenewFor must be longer than nothing")
	case s.retryInterval < time.Millisecond:
		return invalid("a RetryInterval of %v; it must be at least a millisecond", s.retryInterval)
	case s.owner != nil && (*s.owner == "*" || *s.owner == "@lock:shared"):
		return invalid("the owner %s, which means something else to the server", *s.owner)
	case s.owner != nil && (len(*s.owner) < 1 || len(*s.owner) > longestOwner):
		return invalid("an owner of %d bytes; it must have 1 to %d", len(*s.owner), longestOwner)
	case s.ownerPrefix != nil && (len(*s.ownerPrefix) < 1 || len(*s.ownerPrefix) > longestOwner-37):
		return invalid("an OwnerPrefix of %d bytes; it must have 1 to 987", len(*s.ownerPrefix))
	}
	return nil
}
