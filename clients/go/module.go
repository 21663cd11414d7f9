package redislock

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// module is what is known of the server's module, by what the server refused. Hosts may forbid MODULE LIST.
type module struct {
	mu      sync.Mutex
	missing time.Time // when it was missed last; zero while it is not
	logged  bool
	said    string // its version, once that matters
}

// askAgain is for how long a server is taken to be without the module.
const askAgain = 5 * time.Second

// mayBeLoaded reports whether to try the module's commands. One request in five seconds finds out for the others.
func (m *module) mayBeLoaded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missing.IsZero() {
		return true
	}
	if time.Since(m.missing) < askAgain {
		return false
	}
	m.missing = time.Now()
	return true
}

// isMissing reports the same without finding out.
func (m *module) isMissing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.missing.IsZero() && time.Since(m.missing) < askAgain
}

func (m *module) isLoaded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing = time.Time{}
}

func (m *module) isNotLoaded(logger *slog.Logger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing = time.Now()
	if m.logged {
		return
	}
	m.logged = true
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("redislock: the server has not loaded the redis-lock module; locks are taken by SET NX: " +
		"waiters poll, in no order, and there is no fencing token")
}

// version is empty if it is not in what ask returns, which is the reply to INFO.
func (m *module) version(ask func() any) string {
	m.mu.Lock()
	said := m.said
	m.mu.Unlock()
	if said != "" {
		return said
	}
	_, info, _ := strings.Cut(fmt.Sprintf("%s", ask()), "lock_version:")
	said, _, _ = strings.Cut(info, "\r\n")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = said
	return said
}

// lacksModule reports whether the server does not know our command. (Another command that it does not know may have been
// run by LOCK.GUARD.)
func lacksModule(err error) bool {
	var refused ServerError
	if !errors.As(err, &refused) {
		return false
	}
	for _, words := range []string{"ERR unknown command", "ERR Command is not available:"} { // as Upstash says it
		if name, ok := strings.CutPrefix(string(refused), words); ok {
			name = strings.TrimLeft(name, " '`\",")
			return len(name) > 5 && strings.EqualFold(name[:5], "LOCK.")
		}
	}
	return false
}
