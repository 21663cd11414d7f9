package redislock

import "sync"

// neighbours are the waiters of one process on a server without the module. A release wakes the one that has waited for
// longest, so that it need not wait for its next poll. A wake-up that comes too late costs that poll, and nothing else.
type neighbours struct {
	mu      sync.Mutex
	waiting map[string][]chan struct{}
}

// wait returns a channel that is closed at a release of this key, and what must be called afterwards.
func (n *neighbours) wait(key string) (woken <-chan struct{}, leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[string][]chan struct{}{}
	}
	channel := make(chan struct{})
	n.waiting[key] = append(n.waiting[key], channel)
	return channel, func() { n.leave(key, channel) }
}

func (n *neighbours) wake(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if waiting := n.waiting[key]; len(waiting) > 0 {
		close(waiting[0])
		n.set(key, waiting[1:])
	}
}

func (n *neighbours) leave(key string, channel chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, other := range n.waiting[key] {
		if other == channel {
			n.set(key, append(n.waiting[key][:i:i], n.waiting[key][i+1:]...))
			return
		}
	}
}

// set is with mu.
func (n *neighbours) set(key string, waiting []chan struct{}) {
	if len(waiting) == 0 {
		delete(n.waiting, key)
		return
	}
	n.waiting[key] = waiting
}
