package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// tryFor is how long a request that does not wait may take in all, and a release or renewal before it fails.
	tryFor = 5 * time.Second
	// retryFor is for how long a waiter retries without a reply.
	retryFor = 10 * time.Second
	// longestBlock is for how long a waiter without a deadline blocks at a time.
	longestBlock = 24 * time.Hour
	// placeLease is how long a place in the queue is kept after it was last asked for.
	placeLease = 3 * time.Second
	// longestRetryPause is between two requests while the server can't be reached.
	longestRetryPause = 500 * time.Millisecond
)

// An attempt is all requests of one owner until it has the lock or gives up.
type attempt struct {
	client *Client
	lock   *lock
	waits  bool
	last   *call
	blocks bool          // the last request waits in the server
	queues bool          // it keeps a place
	polls  bool          // there is no connection to block
	lease  time.Duration // what the server allows of placeLease
	place  int64         // the last one known
	pauses pauses

	failure    error // since when no request got a usable reply, and why
	failing    time.Time
	retries    pauses
	left       bool // something of it may be left in the server
	unanswered bool // a request without a reply may still reach the server
}

func (c *Client) acquire(ctx context.Context, l *lock, waits bool) (*Hold, error) {
	a := &attempt{client: c, lock: l, waits: waits, lease: placeLease, polls: l.queue || c.server.connector == nil}
	limited := ctx
	if !waits {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, tryFor, errNoReply)
		defer cancel()
	}
	hold, err := a.run(limited)
	if err != nil && a.left {
		c.withdraw(ctx, l, a.last, a.unanswered, max(l.ttl, placeLease))
	}
	return hold, err
}

func (a *attempt) run(ctx context.Context) (*Hold, error) {
	confirms := false
	var since time.Time // the ttl of a place may begin at any time after a reply that was no grant: when replicas have it
	for {
		if ctx.Err() != nil {
			return nil, a.gaveUp(ctx)
		}
		sent := time.Now()
		a.ask(ctx, a.waits && !confirms)
		if since.IsZero() || !a.queues {
			since = sent
		}
		reply, err := a.last.wait(ctx)
		took := time.Since(since)
		if err == nil {
			a.failure, a.failing, a.retries = nil, time.Time{}, pauses{}
		}

		var pause time.Duration
		mayBeWoken := false
		switch {
		case err == nil && reply.granted:
			// The ttl began at the grant, and it is unknown for how long its reply was on the way: a short wait is
			// taken off the hold, after a long one the same owner asks again, which counts from then on.
			again := (a.blocks || a.queues) && took > a.lock.ttl/8
			if took < a.lock.ttl && !again {
				return a.client.hold(a.lock, reply.fence, since, a.unanswered), nil
			}
			a.left = true
			if !confirms {
				confirms = true
				continue
			}
			pause = a.pauses.next(a.lock.retryInterval) // its ttl is shorter than the way to the server
		case err == nil:
			confirms, since = false, sent
			a.left = a.left || reply.place > 0
			mayBeWoken = reply.place == 0
			if !a.waits {
				return nil, ErrNotObtained
			}
			if reply.place != a.place {
				a.place, a.pauses = reply.place, pauses{}
			}
			longest := a.lock.retryInterval
			if a.place > 0 { // else it would lapse
				longest = min(longest, a.lease/3)
			}
			pause = a.pauses.next(longest)
		case errors.Is(err, ErrNoConnection):
			a.polls = true
			continue
		case errors.Is(err, errGaveUp):
			a.left = true
			return nil, a.gaveUp(ctx)
		case a.leaseTooLong(err):
			continue
		case mayPass(err):
			if isUnanswered(err) {
				a.left, a.unanswered = true, true
			}
			if a.failing.IsZero() {
				a.failing = time.Now()
			}
			if a.failure = err; a.waits && time.Since(a.failing) > retryFor {
				return nil, fmt.Errorf("redislock: %w", err)
			}
			pause = a.retries.next(longestRetryPause)
		default:
			switch {
			case errors.Is(err, ErrReplaced):
				// The later request has the wait now, and a release would end that. An owner of this attempt alone was
				// replaced by a request of its own whose reply was lost.
				a.left = a.lock.settings.owner == nil
			case errors.Is(err, ErrNoReplicas): // it may have been written
				a.left = true
			}
			return nil, err
		}

		if !a.pause(ctx, pause, mayBeWoken) {
			return nil, a.gaveUp(ctx)
		}
	}
}

// pause reports whether ctx has not ended meanwhile. Without a place in the server's queue, a release of this process may
// end the pause.
func (a *attempt) pause(ctx context.Context, pause time.Duration, mayBeWoken bool) bool {
	var woken <-chan struct{}
	if mayBeWoken {
		var leave func()
		woken, leave = a.client.plain.wait(a.lock.keys[0])
		defer leave()
	}
	sleep(ctx, woken, pause)
	return ctx.Err() == nil
}

// ask sends the next request: one that waits in the server if there is a connection for it, else one that keeps a place.
func (a *attempt) ask(ctx context.Context, waits bool) {
	s, l := &a.client.server, a.lock
	a.blocks, a.queues = false, false
	via := s.alone(l)
	var wait []string
	switch {
	case !waits || s.module.isMissing():
	case !a.polls && s.mayBlock():
		a.blocks = true
	default:
		a.queues, via = true, s.doer // a place is returned at once
		wait = []string{"QUEUE", milliseconds(a.lease)}
	}
	if !a.blocks {
		a.last = s.begin(ctx, replyTimeout, func(ctx context.Context) (reply, error) {
			return s.acquire(ctx, via, l, wait...)
		})
		return
	}
	block := longestBlock
	if deadline, ok := ctx.Deadline(); ok {
		block = min(max(time.Until(deadline), time.Millisecond), block)
	}
	a.last = s.begin(ctx, block+replyTimeout, func(ctx context.Context) (reply, error) {
		defer s.hasBlocked()
		conn, err := s.connector.Connect(ctx, l.keys[0])
		if err != nil {
			return reply{}, err
		}
		defer conn.Close()
		return s.acquire(ctx, conn, l, "BLOCK", milliseconds(block))
	})
}

// leaseTooLong takes what the server allows, if that was the error.
func (a *attempt) leaseTooLong(err error) bool {
	var refused ServerError
	if !errors.As(err, &refused) {
		return false
	}
	words, ok := strings.CutPrefix(string(refused), "ERR lease must be 1 to ")
	if !ok {
		return false
	}
	number, _, _ := strings.Cut(words, " ")
	most, err := strconv.ParseInt(number, 10, 64)
	if err != nil || most < 1 || most >= a.lease.Milliseconds() {
		return false
	}
	a.lease = time.Duration(most) * time.Millisecond
	return true
}

func (a *attempt) gaveUp(ctx context.Context) error {
	cause := whyEnded(ctx)
	switch {
	case a.failure != nil:
		return fmt.Errorf("redislock: %w; the last request failed: %w", cause, a.failure)
	case a.waits:
		return fmt.Errorf("%w: %w", ErrNotObtained, cause)
	}
	return fmt.Errorf("redislock: %w", cause)
}

// withdraw releases in the background what an attempt or a hold has left in the server, until that is certain or has
// expired: so long after the last request was answered or given up.
func (c *Client) withdraw(ctx context.Context, l *lock, last *call, unanswered bool, lasts time.Duration) {
	ctx = context.WithoutCancel(ctx)
	c.named.releases(l, 1)
	c.inBackground(func() {
		defer c.named.releases(l, -1)
		between := pauses{last: 50 * time.Millisecond}
		until, released := time.Now().Add(lasts), 0
		for {
			over := last == nil || last.isOver()
			if !over {
				until = time.Now().Add(lasts)
			} else if last != nil && (!last.isAnswered() || last.err != nil && isUnanswered(last.err)) {
				unanswered = true
			}
			_, err := c.release(ctx, l)
			switch {
			case errors.Is(err, ErrClosed):
				return
			case err == nil && over && !unanswered:
				return
			case err == nil && over:
				// A request without a reply may still be on its way, and be granted only now. So for some seconds more:
				if released++; released > 7 {
					return
				}
			}
			if over && time.Now().After(until) {
				return
			}
			timer := time.NewTimer(between.next(2 * time.Second))
			if over {
				<-timer.C
				continue
			}
			select {
			case <-timer.C:
			case <-last.ctx.Done(): // when it is answered too
				timer.Stop()
				if err == nil && !unanswered && last.leftNothing() {
					return // the release has ended its wait
				}
			}
		}
	})
}

func (c *Client) release(ctx context.Context, l *lock) (int64, error) {
	released := c.server.begin(ctx, replyTimeout, func(ctx context.Context) (reply, error) { return c.server.release(ctx, l) })
	reply, err := released.wait(ctx)
	return reply.count, err
}
