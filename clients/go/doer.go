package redislock

import (
	"context"
	"time"
)

// A Doer sends a command to a server and returns its reply. The packages goredis, redigo and rueidis beside this one
// make it of the client of that name; another client needs this one method:
//
//   - a null reply is nil without an error, and an integer an int64;
//   - an error that the server replied is a [ServerError], or wraps one; every other error means that it is unknown
//     whether the command ran;
//   - the deadline of the context holds; that it can be cancelled is not needed.
//
// Each argument that this package passes by itself is a string. Those of [Hold.Guard] come as they are.
type Doer interface {
	Do(ctx context.Context, args ...any) (any, error)
}

// A Connector is a Doer which also has connections that nothing else uses, so that a command may wait on one. With it a
// client waits by BLOCK, and without it by QUEUE, which polls.
type Connector interface {
	Doer
	// Connect returns such a connection. It must not limit the time for a reply, except by the deadline of the context,
	// nor send a command twice. ErrNoConnection says that there is none for this key.
	Connect(ctx context.Context, key string) (Conn, error)
}

// A Pipeliner is a Doer that can also send commands in one pipeline, over a connection that nothing else uses meanwhile:
// for [Replicas], with which the server replies late.
type Pipeliner interface {
	Doer
	// Pipeline returns the reply to each command. ErrNoConnection says that several can't be sent over one connection.
	Pipeline(ctx context.Context, commands ...[]any) ([]Reply, error)
}

// A Reply is what [Doer].Do would return.
type Reply struct {
	Value any
	Err   error
}

// alone sends each command over a connection that nothing else uses meanwhile.
type alone struct{ pipeliner Pipeliner }

func (a alone) Do(ctx context.Context, args ...any) (any, error) {
	replies, err := a.pipeliner.Pipeline(ctx, args)
	if err != nil {
		return nil, err
	}
	return replies[0].Value, replies[0].Err
}

// A Conn is a connection of one's own.
type Conn interface {
	Doer
	// Close gives the connection back, or closes it if it is broken.
	Close() error
}

// replyTimeout is how long a reply may take, beside the time for which the server was asked to wait.
const replyTimeout = 2 * time.Second

// A call is a command on its way. It goes on when its caller gives up.
type call struct {
	ctx   context.Context // ends when no reply is expected any more
	done  chan struct{}   // closed when the outcome is there
	reply reply
	err   error
}

// begin starts do, whose context keeps the values of ctx but neither its deadline nor its cancellation.
func (s *server) begin(ctx context.Context, limit time.Duration, do func(context.Context) (reply, error)) *call {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	c := &call{ctx: ctx, done: make(chan struct{})}
	s.workers.run(func() {
		defer cancel() // after done is closed
		defer close(c.done)
		c.reply, c.err = do(ctx)
	})
	return c
}

// wait returns the outcome, errGaveUp if ctx ends before, or errNoReply.
func (c *call) wait(ctx context.Context) (reply, error) {
	if c.isAnswered() {
		return c.reply, c.err
	}
	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
		return reply{}, errGaveUp
	case <-c.ctx.Done():
		if c.isAnswered() { // which ends its context
			return c.reply, c.err
		}
		return reply{}, errNoReply
	}
}

// isAnswered reports whether the outcome is there.
func (c *call) isAnswered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// isOver reports whether no outcome is to be expected any more.
func (c *call) isOver() bool { return c.ctx.Err() != nil || c.isAnswered() }

// leftNothing reports whether the request was answered with neither a hold nor a place.
func (c *call) leftNothing() bool {
	return c.isAnswered() && c.err == nil && !c.reply.granted && c.reply.place == 0
}
