package streams

import (
	"context"
	"sync"
	"time"
)

// Link delays what a client sends and receives by what a network would take, in ms, at a time since the client began.
type Link interface {
	Up(now time.Duration, bytes int) (ms float64)
	Down(now time.Duration, bytes int) (ms float64)
}

// delayed carries things out one after the other, each when it is due.
type delayed struct {
	queue chan due
	last  time.Time // when the newest is due
}

type due struct {
	at time.Time
	do func() error
}

func newDelayed() *delayed { return &delayed{queue: make(chan due, mostOut)} }

// add has something done then, but not before what was added earlier.
func (l *delayed) add(ctx context.Context, at time.Time, do func() error) error {
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at
	select {
	case l.queue <- due{at, do}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run does what is due until that fails or the context ends.
func (l *delayed) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case x := <-l.queue:
			if wait := time.Until(x.at); wait > 0 {
				timer.Reset(wait)
				select {
				case <-timer.C:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if err := x.do(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// shared is a link that both directions use.
type shared struct {
	mu   sync.Mutex
	link Link // nil: it takes no time
}

func (s *shared) delay(since time.Time, bytes int, of func(Link, time.Duration, int) float64) time.Time {
	now := time.Now()
	if s.link == nil {
		return now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Add(time.Duration(of(s.link, now.Sub(since), bytes) * float64(time.Millisecond)))
}
