package redislock

import "time"

// workers run what may outlast its caller. They are kept for a moment, because a new goroutine would have to grow its
// stack in each call of a client's.
type workers struct{ idle chan func() }

func (w workers) run(job func()) {
	select {
	case w.idle <- job:
	default:
		go w.work(job)
	}
}

func (w workers) work(job func()) {
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for {
		job()
		patience.Reset(time.Second)
		select {
		case job = <-w.idle:
		case <-patience.C:
			return
		}
	}
}
