package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Hold is a lock that is held: what one call of [Client.Lock] has brought. It may be used by many goroutines.
type Hold struct {
	client *Client
	lock   *lock
	fence  int64
	done   chan struct{}

	refreshing chan struct{} // one element while a renewal is under way

	mu         sync.Mutex
	ends       time.Time // not before this, as long as the server is not told otherwise
	latest     time.Time // in the server, not after this
	err        error     // why it has ended
	failure    error     // of the last renewal
	released   bool
	expiry     *time.Timer
	unanswered bool // a request without a reply may still reach the server
}

func (c *Client) hold(l *lock, fence int64, sent time.Time, unanswered bool) *Hold {
	h := &Hold{
		client: c, lock: l, fence: fence, done: make(chan struct{}), refreshing: make(chan struct{}, 1),
		ends: sent.Add(l.ttl), latest: time.Now().Add(l.ttl), unanswered: unanswered,
	}
	h.mu.Lock()
	h.expiry = time.AfterFunc(time.Until(h.ends), func() { _ = h.Err() })
	h.mu.Unlock()
	c.named.begins(h)
	if l.renew {
		go h.keepRenewing(sent)
	}
	return h
}

// Fence is the fencing token: greater than those of all earlier grants. Let what the lock protects refuse smaller ones.
// It is 0 without the module; where it is needed use [RequireModule].
func (h *Hold) Fence() int64 { return h.fence }

// Owner is what the server knows the hold by.
func (h *Hold) Owner() string { return h.lock.owner }

// Done is closed when the hold ends, by a loss or a release. [Hold.Err] says which.
func (h *Hold) Done() <-chan struct{} { return h.done }

// Err is nil while the lock is held, as far as this process knows; then [ErrLost], with the reason, or [ErrReleased]. It
// compares with the clock, so it is right after a pause of the process, too.
func (h *Hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.look(time.Now())
}

// Held reports whether [Hold.Err] is nil.
func (h *Hold) Held() bool { return h.Err() == nil }

// TTL is how long the hold lasts, by the clock of this process: at least so long in the server. 0 if it has ended.
func (h *Hold) TTL() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.look(now) != nil {
		return 0
	}
	return h.ends.Sub(now)
}

// Context returns a copy of parent that is cancelled when the hold ends, with [Hold.Err] as its cause.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case <-h.done:
			cancel(h.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// look ends the hold if its time is over. With mu.
func (h *Hold) look(now time.Time) error {
	if h.err != nil || now.Before(h.ends) {
		return h.err
	}
	switch {
	case h.failure != nil:
		h.end(fmt.Errorf("%w: it could not be renewed in time: %w", ErrLost, h.failure))
	case h.lock.renew:
		h.end(fmt.Errorf("%w: it was not renewed in time", ErrLost))
	default:
		h.end(fmt.Errorf("%w: its ttl is over", ErrLost))
	}
	return h.err
}

// end is the one way out of a hold. With mu.
func (h *Hold) end(err error) {
	if h.err != nil {
		return
	}
	h.err = err
	h.expiry.Stop()
	h.client.named.ends(h)
	close(h.done)
}

var errNotHeld = fmt.Errorf("%w: the server says that this owner does not hold it", ErrLost)

// lose ends the hold if the server says so, and returns why it has ended.
func (h *Hold) lose() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end(errNotHeld)
	return h.err
}

// Guard runs a command in the server in the instant in which it sees that the lock is held, or not at all ([ErrLost]). Of
// several locks the first counts. In a cluster the command's keys must be in its slot.
//
// It is sent once. After an error of the connection it is unknown whether it ran. A null reply is nil; without the module
// a script runs the command, and the reply has the form of a script's.
func (h *Hold) Guard(ctx context.Context, command ...any) (any, error) {
	if len(command) == 0 {
		return nil, invalid("no command to guard")
	}
	h.mu.Lock()
	now := time.Now()
	err, left := h.look(now), h.latest.Sub(now)
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// Later than its end the server would refuse it.
	guarded := h.client.server.begin(ctx, left+replyTimeout, func(ctx context.Context) (reply, error) {
		return h.client.server.guard(ctx, h.lock, command)
	})
	reply, err := guarded.wait(ctx)
	switch {
	case errors.Is(err, errGaveUp):
		return nil, fmt.Errorf("redislock: whether the guarded command ran is unknown: %w", whyEnded(ctx))
	case errors.Is(err, errNotOwner):
		return nil, h.lose()
	case err != nil && isUnanswered(err):
		return nil, fmt.Errorf("redislock: whether the guarded command ran is unknown: %w", err)
	}
	return reply.value, err
}

// Refresh lets the hold last for so long from now on. In the background it goes on being renewed by the ttl that it was
// taken with, if at all. A lost hold does not come back: Refresh returns [ErrLost].
func (h *Hold) Refresh(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, tryFor, errNoReply)
	defer cancel()
	select {
	case h.refreshing <- struct{}{}:
		defer func() { <-h.refreshing }()
	case <-limited.Done():
		return fmt.Errorf("redislock: %w", whyEnded(limited))
	}
	var retries pauses
	for {
		err := h.refresh(limited, ttl)
		if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrReleased) || !mayPass(err) {
			return err
		}
		if !sleep(limited, h.done, retries.next(longestRetryPause)) {
			if ended := h.Err(); ended != nil {
				return ended
			}
			return fmt.Errorf("redislock: not renewed: %w", err)
		}
	}
}

// refresh sends one renewal.
func (h *Hold) refresh(ctx context.Context, ttl time.Duration) error {
	h.mu.Lock()
	sent := time.Now()
	if err := h.look(sent); err != nil {
		h.mu.Unlock()
		return err
	}
	before := h.ends
	if shorter := sent.Add(ttl); shorter.Before(h.ends) { // in the server, perhaps, from now on
		h.setEnd(shorter)
	}
	h.mu.Unlock()

	renewed := h.client.server.begin(ctx, replyTimeout, func(ctx context.Context) (reply, error) {
		return h.client.server.renew(ctx, h.lock, ttl)
	})
	reply, err := renewed.wait(ctx)
	if errors.Is(err, errGaveUp) {
		err = whyEnded(ctx)
	}
	if err == nil && reply.count == 0 {
		return h.lose()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if latest := now.Add(ttl); latest.After(h.latest) {
		h.latest = latest
	}
	if ended := h.look(now); ended != nil {
		return ended
	}
	switch {
	case err == nil:
		h.failure = nil
		h.setEnd(sent.Add(ttl))
	case isUnanswered(err), leavesEndOpen(err):
		h.failure = err
	default: // refused, so the end is as it was
		h.failure = err
		h.setEnd(before)
	}
	return err
}

// setEnd moves the end. With mu.
func (h *Hold) setEnd(end time.Time) {
	h.ends = end
	h.expiry.Reset(time.Until(end))
}

func (h *Hold) keepRenewing(granted time.Time) {
	third := h.lock.ttl / 3
	notBefore := granted
	for {
		h.mu.Lock()
		due := h.ends.Add(-2 * third)
		h.mu.Unlock()
		if due.Before(notBefore) {
			due = notBefore
		}
		if limit := h.lock.renewFor; limit != nil && due.Sub(granted) > *limit {
			return
		}
		if !sleep(context.Background(), h.done, time.Until(due)) {
			return
		}
		h.refreshing <- struct{}{}
		err := h.refresh(context.Background(), h.lock.ttl)
		<-h.refreshing
		if err != nil {
			notBefore = time.Now().Add(max(h.lock.ttl/10, time.Millisecond))
		}
	}
}

// Release gives the lock to the next. [ErrLost] says that the hold had ended before, and another owner may have worked
// meanwhile.
//
// From the call on the lock is not to be relied on. If the release fails, or ctx ends before the server has replied, it
// goes on in the background until the hold has expired, and [Client.Wait] waits for it.
func (h *Hold) Release(ctx context.Context) error {
	h.mu.Lock()
	now := time.Now()
	ended := h.look(now)
	if h.released {
		h.mu.Unlock()
		return ended
	}
	h.released = true
	h.end(ErrReleased)
	ends, latest, unanswered := h.ends, h.latest, h.unanswered
	h.mu.Unlock()

	inBackground := func() { h.client.withdraw(ctx, h.lock, nil, unanswered, time.Until(latest)) }
	switch {
	case ended != nil: // but the server may have it a little longer
		if !h.client.named.isHeld(h.lock) {
			inBackground()
		}
		return ended
	case ctx.Err() != nil:
		inBackground()
		return notReleased(whyEnded(ctx))
	}
	limited, cancel := context.WithTimeoutCause(ctx, tryFor, errNoReply)
	defer cancel()
	var retries pauses
	repeated := false
	for {
		released := h.client.server.begin(limited, replyTimeout, func(ctx context.Context) (reply, error) {
			return h.client.server.release(ctx, h.lock)
		})
		reply, err := released.wait(limited)
		switch {
		case errors.Is(err, errGaveUp):
			inBackground()
			return notReleased(whyEnded(limited))
		case err == nil:
			h.client.plain.wake(h.lock.keys[0])
			if unanswered {
				inBackground()
			}
			// If the reply to the first was lost, the second finds nothing more to release.
			if reply.count == int64(len(h.lock.keys)) || repeated && reply.count == 0 && time.Now().Before(ends) {
				return nil
			}
			return errNotHeld
		}
		repeated = repeated || isUnanswered(err)
		if !mayPass(err) || !sleep(limited, nil, retries.next(longestRetryPause)) {
			inBackground()
			return notReleased(err)
		}
	}
}

func notReleased(err error) error {
	return fmt.Errorf("redislock: the release goes on in the background: %w", err)
}

// sleep reports whether the whole time has passed.
func sleep(ctx context.Context, done <-chan struct{}, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-done:
		return false
	}
}
