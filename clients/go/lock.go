package redislock

import (
	"strconv"
	"time"
)

// A lock is one lock, or several that are held together, as one owner asks for it. It doesn't change.
type lock struct {
	settings
	keys  []string
	owner string
	ttl   time.Duration
}

// command is a command of the module, with all keys: LOCK.RELEASE for one, LOCK.MRELEASE for several.
func (l *lock) command(verb string, rest ...string) []any {
	args := make([]any, 0, 4+len(l.keys)+len(rest))
	if len(l.keys) == 1 {
		args = append(args, "LOCK."+verb)
	} else {
		args = append(args, "LOCK.M"+verb, strconv.Itoa(len(l.keys)))
	}
	for _, key := range l.keys {
		args = append(args, key)
	}
	args = append(args, l.owner)
	for _, word := range rest {
		args = append(args, word)
	}
	return args
}

// acquire asks for the lock once, or with BLOCK or QUEUE and their time waits for it.
func (l *lock) acquire(wait ...string) []any {
	words := append([]string{milliseconds(l.ttl)}, wait...)
	if l.shared {
		words = append(words, "SHARED")
	}
	if l.limit != nil {
		words = append(words, "LIMIT", strconv.FormatInt(*l.limit, 10))
	}
	if l.group != nil {
		words = append(words, "FAIR")
	}
	if l.per != nil {
		words = append(words, "PER", strconv.FormatInt(*l.per, 10))
	}
	words = append(words, l.acknowledged()...)
	if l.maxQueue != nil && len(wait) > 0 {
		words = append(words, "MAXQUEUE", strconv.FormatInt(*l.maxQueue, 10))
	}
	return l.command("ACQUIRE", words...)
}

func (l *lock) renewal(ttl time.Duration) []any {
	return l.command("RENEW", append([]string{milliseconds(ttl)}, l.acknowledged()...)...)
}

func (l *lock) acknowledged() []string {
	if l.replicas == nil {
		return nil
	}
	return []string{"REPLICAS", strconv.FormatInt(*l.replicas, 10)}
}

func (l *lock) waitsForReplicas() bool { return l.replicas != nil && *l.replicas > 0 }

// needsVersion2 says for what this lock needs version 2.0 of the module, if it does.
func (l *lock) needsVersion2() string {
	switch {
	case l.group != nil:
		return "Fair"
	case l.replicas != nil:
		return "Replicas"
	case l.maxQueue != nil:
		return "MaxQueue"
	}
	return ""
}

// needsModule says for what this lock can't do without the module, if it can't.
func (l *lock) needsModule() string {
	switch {
	case l.requiresModule:
		return "RequireModule"
	case len(l.keys) > 1:
		return "a lock of several keys"
	case l.shared:
		return "Shared"
	case l.limit != nil:
		return "Limit"
	case l.maxQueue != nil:
		return "MaxQueue"
	}
	return ""
}

// milliseconds rounds up, so that nothing is shorter than it was asked for.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}
