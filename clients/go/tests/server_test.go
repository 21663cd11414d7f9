package tests

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server of a test's own. Its admin has a connection beside those that are tested.
type server struct {
	t       *testing.T
	port    int
	options []string
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	admin   *redis.Client
}

func startServer(t *testing.T) *server { return start(t, "--loadmodule", module()) }

// startBare starts a server without the module.
func startBare(t *testing.T) *server { return start(t) }

func module() string { return os.Getenv("REDIS_LOCK_MODULE") }

func start(t *testing.T, options ...string) *server {
	t.Helper()
	for range [10]int{} { // the port may be taken meanwhile
		s := &server{t: t, port: freePort(t), options: options}
		if s.run() {
			t.Cleanup(s.kill)
			t.Cleanup(func() { _ = s.admin.Close() })
			return s
		}
	}
	t.Fatal("the server does not start")
	return nil
}

// run reports whether it started.
func (s *server) run() bool {
	s.t.Helper()
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = "redis-server"
	}
	s.process = exec.Command(program, append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.t.TempDir(), "--save", "",
		"--enable-module-command", "yes"}, s.options...)...)
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait()
		close(ended)
	}(s.process, s.ended)
	s.admin = redis.NewClient(&redis.Options{Addr: s.address(), MaxRetries: -1})
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
		info, err := s.admin.Info(context.Background(), "server").Result()
		if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.process.Process.Pid)) {
			return true
		}
		if err == nil || s.hasEnded() { // it is another server's port
			break
		}
	}
	s.kill()
	_ = s.admin.Close()
	return false
}

func (s *server) kill() {
	_ = s.process.Process.Kill()
	<-s.ended
}

func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

func (s *server) signal(signal syscall.Signal) {
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Error(err)
	}
}

func (s *server) address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

func (s *server) do(args ...any) any {
	s.t.Helper()
	reply, err := s.admin.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.t.Fatal(args, err)
	}
	return reply
}

// text is the value of a string, empty if there is none.
func (s *server) text(key string) string {
	s.t.Helper()
	text, _ := s.do("GET", key).(string)
	return text
}

// info is what LOCK.INFO says in a field; 0 of a lock that has neither holder nor waiter.
func (s *server) info(key, field string) int64 {
	s.t.Helper()
	fields, _ := s.do("LOCK.INFO", key).(map[any]any)
	number, _ := fields[field].(int64)
	return number
}

func (s *server) isFree(key string) bool {
	return s.info(key, "count") == 0 && s.info(key, "queue") == 0
}

// calls is how often a command was called, by INFO commandstats.
func (s *server) calls(command string) int {
	s.t.Helper()
	stats, _ := s.do("INFO", "commandstats").(string)
	_, rest, ok := strings.Cut(stats, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, ",")
	calls, err := strconv.Atoi(number)
	if err != nil {
		s.t.Fatal(err)
	}
	return calls
}

func freePort(t *testing.T) int {
	for port := 21000 + os.Getpid()%1000; port < 30000; port++ {
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			_ = listener.Close()
			nextPort.Lock()
			taken := nextPort.taken[port]
			nextPort.taken[port] = true
			nextPort.Unlock()
			if !taken {
				return port
			}
		}
	}
	t.Fatal("no port is free")
	return 0
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("never:", what)
		}
	}
}
