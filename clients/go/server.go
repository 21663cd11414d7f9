package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxBlocked is how many waiters of one client have a connection each. Further ones poll.
const maxBlocked = 128

// A server is asked in the way that it understands: by the module's commands, or by those of any server.
type server struct {
	doer      Doer
	connector Connector // nil if the client has none
	pipeliner Pipeliner // the same
	module    module
	workers   workers
	blocked   chan struct{} // one element for each waiter that has a connection
}

// A reply is what it says about a lock.
type reply struct {
	granted bool
	fence   int64 // 0 without the module
	place   int64 // in the queue, from 1 on; 0: none
	count   int64 // of the locks that were held
	value   any   // of a guarded command
}

// acquire sends one request, by a connection of its own or by the one that all share.
func (s *server) acquire(ctx context.Context, via Doer, l *lock, wait ...string) (reply, error) {
	value, known, err := s.byModule(ctx, via, l, l.acquire(wait...))
	var refused ServerError
	switch {
	case l.needsVersion2() != "" && errors.As(err, &refused) && strings.HasPrefix(string(refused), "ERR syntax error"):
		return reply{}, s.explain(ctx, via, l, err)
	case err != nil:
		return reply{}, err
	}
	if known {
		if value == nil {
			return reply{}, nil
		}
		number, err := integer(value)
		return reply{granted: number > 0, fence: max(number, 0), place: max(-number, 0)}, err
	}
	count, err := s.plain(ctx, via, l, l.eval(plainAcquire, milliseconds(l.ttl)))
	return reply{granted: count == 1}, err
}

// explain asks a module once for its version. One that is older calls a word that it does not know a syntax error.
func (s *server) explain(ctx context.Context, via Doer, l *lock, err error) error {
	version := s.module.version(func() any {
		info, _ := via.Do(ctx, "INFO", "lock")
		return info
	})
	switch {
	case version == "":
		version = "older"
	case !strings.HasPrefix(version, "1."):
		return err
	}
	return fmt.Errorf("%w: %s needs version 2.0, and it is %s", ErrModuleOlder, l.needsVersion2(), version)
}

func (s *server) renew(ctx context.Context, l *lock, ttl time.Duration) (reply, error) {
	via := s.alone(l)
	value, known, err := s.byModule(ctx, via, l, l.renewal(ttl))
	if err == nil && !known {
		count, err := s.plain(ctx, via, l, l.eval(plainRenew, milliseconds(ttl)))
		return reply{count: count}, err
	}
	count, err := s.count(value, err)
	return reply{count: count}, err
}

func (s *server) release(ctx context.Context, l *lock) (reply, error) {
	value, known, err := s.byModule(ctx, s.doer, l, l.command("RELEASE"))
	if err == nil && !known {
		value, err = s.doer.Do(ctx, l.eval(plainRelease)...)
	}
	count, err := s.count(value, err)
	return reply{count: count}, err
}

// guard is sent once, over a connection that repeats nothing where there is one.
func (s *server) guard(ctx context.Context, l *lock, guarded []any) (reply, error) {
	via, done, err := s.connect(ctx, l)
	if err != nil {
		return reply{}, err
	}
	defer done()
	value, known, err := s.byModule(ctx, via, l, append([]any{"LOCK.GUARD", l.keys[0], l.owner}, guarded...))
	if err == nil && !known {
		value, err = via.Do(ctx, l.eval(plainGuard, guarded...)...)
	}
	return reply{value: value}, err
}

// mayBlock reports whether one more waiter may have a connection, and counts it.
func (s *server) mayBlock() bool {
	select {
	case s.blocked <- struct{}{}:
		return true
	default:
		return false
	}
}

// alone returns what others don't wait behind: the client itself, unless the reply waits for replicas.
func (s *server) alone(l *lock) Doer {
	if l.waitsForReplicas() {
		return alone{s.pipeliner}
	}
	return s.doer
}

// replicasWait is how long replicas have to acknowledge without the module. With it, lock.replica-timeout says so.
const replicasWait = time.Second

// plain runs a script of those for a server without the module. If replicas are to acknowledge what it wrote, WAIT follows
// in the same pipeline: over another connection it would wait for nothing.
func (s *server) plain(ctx context.Context, via Doer, l *lock, script []any) (int64, error) {
	if !l.waitsForReplicas() {
		return s.count(via.Do(ctx, script...))
	}
	wait := []any{"WAIT", strconv.FormatInt(*l.replicas, 10), milliseconds(replicasWait)}
	replies, err := s.pipeliner.Pipeline(ctx, script, wait)
	if errors.Is(err, ErrNoConnection) {
		return 0, fmt.Errorf("%w, which Replicas needs with this client, because it can't send WAIT", ErrModuleMissing)
	}
	if err != nil {
		return 0, err
	}
	count, err := s.count(replies[0].Value, replies[0].Err)
	if err != nil || count == 0 {
		return count, err
	}
	acknowledged, err := s.count(replies[1].Value, replies[1].Err)
	var refused ServerError
	if errors.As(err, &refused) {
		return 0, ServerError("NOREPLICAS lock can't wait for replicas: " + refused.Error())
	}
	if err == nil && acknowledged < *l.replicas {
		err = ServerError(fmt.Sprintf("NOREPLICAS lock was acknowledged by %d of %d replicas within %v", acknowledged, *l.replicas, replicasWait))
	}
	return count, err
}

func (s *server) hasBlocked() { <-s.blocked }

// connect returns a connection of its own, or else what all commands share.
func (s *server) connect(ctx context.Context, l *lock) (Doer, func(), error) {
	if s.connector == nil {
		return s.doer, func() {}, nil
	}
	conn, err := s.connector.Connect(ctx, l.keys[0])
	if errors.Is(err, ErrNoConnection) {
		return s.doer, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return conn, func() { _ = conn.Close() }, nil
}

// byModule reports false if the server has not loaded the module and the lock can do without it.
func (s *server) byModule(ctx context.Context, via Doer, l *lock, args []any) (any, bool, error) {
	needs := l.needsModule()
	if needs == "" && !s.module.mayBeLoaded() {
		return nil, false, nil
	}
	value, err := via.Do(ctx, args...)
	switch {
	case err == nil:
		s.module.isLoaded()
		return value, true, nil
	case !lacksModule(err):
		return nil, true, err
	case needs != "":
		return nil, true, fmt.Errorf("%w, which %s needs", ErrModuleMissing, needs)
	}
	s.module.isNotLoaded(l.logger)
	return nil, false, nil
}

func (s *server) count(value any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return integer(value)
}

func integer(value any) (int64, error) {
	number, ok := value.(int64)
	if !ok {
		return 0, ServerError(fmt.Sprintf("ERR redislock: an integer was expected, not %T", value))
	}
	return number, nil
}
