// The program by which tests/clients/promises tests this package. Its lines are described in program.py there.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	redigoredis "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	official "github.com/redis/rueidis"

	"redislock/goredis/v2"
	"redislock/redigo/v2"
	"redislock/rueidis/v2"
	"redislock/v2"
)

func doer(client, address string) redislock.Doer {
	switch client {
	case "polling": // a client without connections to block
		return polling{goredis.New(redis.NewClient(&redis.Options{Addr: address}))}
	case "go-redis":
		return goredis.New(redis.NewClient(&redis.Options{Addr: address}))
	case "redigo":
		return redigo.New(&redigoredis.Pool{MaxIdle: 10, DialContext: func(ctx context.Context) (redigoredis.Conn, error) {
			return redigoredis.DialContext(ctx, "tcp", address)
		}})
	}
	connected, err := official.NewClient(official.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	return rueidis.New(connected)
}

type polling struct{ redislock.Pipeliner }

type silent struct{}

func (silent) Printf(context.Context, string, ...interface{}) {}

type program struct {
	locks *redislock.Client
	lines chan string
	holds []*redislock.Hold
}

func main() {
	redis.SetLogger(silent{})
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	p := &program{
		locks: redislock.New(doer(os.Args[1], "127.0.0.1:"+os.Args[2]), redislock.Logger(logger)),
		lines: make(chan string, 10),
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	fmt.Println("ready")
	for line := range p.lines {
		words := strings.Split(line, " ")
		reply, err := p.do(words[0], words[1:])
		if err != nil {
			reply = wordFor(err)
		}
		fmt.Println(reply)
	}
}

func (p *program) do(verb string, words []string) (string, error) {
	if verb == "acquire" {
		return p.acquire(words[0], milliseconds(words[1]), words[2:])
	}
	number, err := strconv.Atoi(words[0])
	if err != nil {
		return "", err
	}
	hold := p.holds[number]
	switch verb {
	case "release":
		return "ok", hold.Release(context.Background())
	case "renew":
		return "ok", hold.Refresh(context.Background(), milliseconds(words[1]))
	case "held":
		if hold.Held() {
			return "yes", nil
		}
		return "no", nil
	case "guard":
		command := []any{}
		for _, word := range words[1:] {
			command = append(command, word)
		}
		reply, err := hold.Guard(context.Background(), command...)
		return fmt.Sprintf("reply %v", reply), err
	case "losses": // a channel is closed once, and no more often
		select {
		case <-hold.Done():
			if errors.Is(hold.Err(), redislock.ErrLost) {
				return "1", nil
			}
		default:
		}
		return "0", nil
	}
	return "cannot", nil
}

func (p *program) acquire(keys string, ttl time.Duration, words []string) (string, error) {
	options, ctx, waits := []redislock.Option{}, context.Background(), false
	for _, word := range words {
		option, value, _ := strings.Cut(word, "=")
		number, _ := strconv.ParseInt(value, 10, 64)
		switch option {
		case "wait":
			waits = true
			if value != "forever" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, milliseconds(value))
				defer cancel()
			}
		case "renew":
			options = append(options, redislock.Renew())
		case "owner":
			options = append(options, redislock.Owner(value))
		case "prefix":
			options = append(options, redislock.OwnerPrefix(value))
		case "shared":
			options = append(options, redislock.Shared())
		case "limit":
			options = append(options, redislock.Limit(number))
		case "fair":
			options = append(options, redislock.Fair(value))
		case "per":
			options = append(options, redislock.Per(number))
		case "replicas":
			options = append(options, redislock.Replicas(number))
		case "max-queue":
			options = append(options, redislock.MaxQueue(number))
		case "module":
			options = append(options, redislock.RequireModule())
		case "cancellable":
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			go func() {
				<-p.lines
				cancel()
			}()
		}
	}
	ask := p.locks.TryLockAll
	if waits {
		ask = p.locks.LockAll
	}
	hold, err := ask(ctx, strings.Split(keys, ","), ttl, options...)
	if err != nil {
		return "", err
	}
	p.holds = append(p.holds, hold)
	fence := "-"
	if hold.Fence() != 0 {
		fence = strconv.FormatInt(hold.Fence(), 10)
	}
	return fmt.Sprintf("hold %d %s", len(p.holds)-1, fence), nil
}

func milliseconds(text string) time.Duration {
	number, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return time.Duration(number) * time.Millisecond
}

func wordFor(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	var refused redislock.ServerError
	switch {
	case errors.Is(err, redislock.ErrLost):
		return "lost"
	case errors.Is(err, redislock.ErrModuleMissing), errors.Is(err, redislock.ErrModuleOlder):
		return "missing " + text
	case errors.Is(err, redislock.ErrInvalid):
		return "invalid " + text
	case errors.As(err, &refused):
		return "refused " + refused.Error()
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, redislock.ErrNotObtained):
		return "busy"
	}
	return "unknown " + text
}
