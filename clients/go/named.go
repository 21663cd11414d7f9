package redislock

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// named is what a client remembers of owners that its user has chosen, since the server compares owners alone: it takes
// a later grant, or a late release, to the same owner for that of an earlier one.
type named struct {
	mu        sync.Mutex
	holds     map[string][]*Hold
	releasing map[string]int // in the background
}

func (n *named) name(l *lock) (string, bool) {
	keys := slices.Clone(l.keys)
	slices.Sort(keys)
	return strings.Join(append(keys, l.owner), "\x00"), l.settings.owner != nil
}

var errGrantedAnew = fmt.Errorf("%w: its owner was granted the lock anew, with a later fencing token", ErrLost)

// begins ends the holds of this owner that have a smaller number. Without the module there are no numbers to compare.
func (n *named) begins(h *Hold) {
	name, ok := n.name(h.lock)
	if !ok {
		return
	}
	n.mu.Lock()
	earlier := slices.Clone(n.holds[name])
	if n.holds == nil {
		n.holds = map[string][]*Hold{}
	}
	n.holds[name] = append(n.holds[name], h)
	n.mu.Unlock()
	for _, other := range earlier {
		if other.fence > 0 && other.fence < h.fence {
			other.mu.Lock()
			other.end(errGrantedAnew)
			other.mu.Unlock()
		}
	}
}

func (n *named) ends(h *Hold) {
	name, ok := n.name(h.lock)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holds[name] = slices.DeleteFunc(n.holds[name], func(other *Hold) bool { return other == h })
	if len(n.holds[name]) == 0 {
		delete(n.holds, name)
	}
}

// isHeld reports whether this owner holds the lock by another hold than one that has ended.
func (n *named) isHeld(l *lock) bool {
	name, ok := n.name(l)
	if !ok {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.holds[name]) > 0
}

// releases notes that a release in the background has begun (1) or ended (-1).
func (n *named) releases(l *lock, change int) {
	name, ok := n.name(l)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.releasing == nil {
		n.releasing = map[string]int{}
	}
	if n.releasing[name] += change; n.releasing[name] == 0 {
		delete(n.releasing, name)
	}
}

// isSpent reports whether a release in the background might end what this owner asks for.
func (n *named) isSpent(l *lock) bool {
	name, ok := n.name(l)
	if !ok {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.releasing[name] > 0
}
