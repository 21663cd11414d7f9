// Package rueidis lets rueidis send the commands of package redislock.
package rueidis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"redislock/v2"
)

// A Client is a [redislock.Connector].
type Client struct{ client rueidis.Client }

// New returns what [redislock.New] takes. The client may be one for a single server, Sentinel or a cluster. Waiters and
// guarded commands use the pool that rueidis has for commands that block.
func New(client rueidis.Client) *Client { return &Client{client} }

// Do sends a command by the connection that all share.
func (c *Client) Do(ctx context.Context, args ...any) (any, error) {
	words, key, err := split(args)
	if err != nil {
		return nil, err
	}
	command := c.client.B().Arbitrary(words[:key]...).Keys(words[key]).Args(words[key+1:]...)
	return result(c.client.Do(ctx, command.Build()))
}

// Connect returns a connection of the pool for commands that block. In a cluster it may be any node's.
func (c *Client) Connect(context.Context, string) (redislock.Conn, error) { return conn{c.client}, nil }

// Pipeline sends commands over one connection of that pool.
func (c *Client) Pipeline(ctx context.Context, commands ...[]any) ([]redislock.Reply, error) {
	if len(commands) == 1 { // which finds its way in a cluster
		value, err := conn{c.client}.Do(ctx, commands[0]...)
		return []redislock.Reply{{Value: value, Err: err}}, nil
	}
	dedicated, release := c.client.Dedicate()
	defer release()
	built := make([]rueidis.Completed, len(commands))
	for i, args := range commands {
		words, key, err := split(args)
		if err != nil {
			return nil, err
		}
		if words[0] == "WAIT" {
			built[i] = dedicated.B().Arbitrary(words...).Blocking()
			continue
		}
		built[i] = dedicated.B().Arbitrary(words[:key]...).Keys(words[key]).Args(words[key+1:]...).Blocking()
	}
	replies := make([]redislock.Reply, len(commands))
	for i, one := range dedicated.DoMulti(ctx, built...) {
		replies[i].Value, replies[i].Err = result(one)
	}
	return replies, nil
}

type conn struct{ client rueidis.Client }

func (c conn) Do(ctx context.Context, args ...any) (any, error) {
	words, key, err := split(args)
	if err != nil {
		return nil, err
	}
	command := c.client.B().Arbitrary(words[:key]...).Keys(words[key]).Args(words[key+1:]...)
	return result(c.client.Do(ctx, command.Blocking()))
}

// Close does nothing: rueidis has taken the connection back after each command.
func (conn) Close() error { return nil }

// split also returns where the key is.
func split(args []any) (words []string, key int, err error) {
	words = make([]string, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			words[i] = arg
		case []byte:
			words[i] = rueidis.BinaryString(arg)
		case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
			words[i] = fmt.Sprint(arg)
		default:
			return nil, 0, fmt.Errorf("%w: an argument of type %T; rueidis takes strings, bytes and numbers", redislock.ErrInvalid, arg)
		}
	}
	switch words[0] {
	case "LOCK.MACQUIRE", "LOCK.MRENEW", "LOCK.MRELEASE":
		return words, 2, nil
	case "EVAL":
		return words, 3, nil
	}
	return words, 1, nil
}

func result(result rueidis.RedisResult) (any, error) {
	reply, err := result.ToAny()
	switch {
	case err == nil:
		return reply, nil
	case rueidis.IsRedisNil(err):
		return nil, nil
	case errors.Is(err, rueidis.ErrClosing):
		return nil, redislock.ErrClosed
	}
	if refused, ok := rueidis.IsRedisErr(err); ok {
		return nil, redislock.ServerError(withCode(refused.Error()))
	}
	return nil, err
}

// withCode gives back the ERR that rueidis takes away.
func withCode(text string) string {
	if code, _, _ := strings.Cut(text, " "); code == "" || strings.ToUpper(code) != code {
		return "ERR " + text
	}
	return text
}
