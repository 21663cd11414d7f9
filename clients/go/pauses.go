package redislock

import (
	"math/rand"
	"time"
)

// pauses grow from first to the longest, and none is quite as long as that of another waiter.
type pauses struct{ last time.Duration }

const firstPause = 10 * time.Millisecond

func (p *pauses) next(longest time.Duration) time.Duration {
	p.last = min(max(firstPause, 2*p.last), longest)
	return p.last - time.Duration(rand.Int63n(int64(p.last)/4+1))
}
