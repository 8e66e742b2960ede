// Package lograte bounds the lines of a kind in the log. Time is passed in.
package lograte

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// most bounds the lines a second: an overload must not become one of the log.
const most = 100

// Limiter lets so many lines through, and counts those that it does not. Its methods may be
// called from any goroutine.
type Limiter struct {
	limit   *rate.Limiter
	omitted atomic.Uint64 // since the last line
}

// New makes a Limiter.
func New() *Limiter { return &Limiter{limit: rate.NewLimiter(most, most)} }

// Due reports whether a line may be written now.
func (l *Limiter) Due(now time.Duration) bool {
	ok := l.limit.AllowN(time.Time{}.Add(now), 1)
	if !ok {
		l.omitted.Add(1)
	}
	return ok
}

// Omitted is how many lines were not written since it was last called.
func (l *Limiter) Omitted() uint64 { return l.omitted.Swap(0) }
