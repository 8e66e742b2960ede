package config

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// mostLines bounds the lines a second: an overload must not become one of the log.
const mostLines = 100

// LogLimiter lets so many lines through, and counts those that it does not. Its methods may be
// called from any goroutine.
type LogLimiter struct {
	limit   *rate.Limiter
	omitted atomic.Uint64 // since the last line
}

// NewLogLimiter makes a LogLimiter.
func NewLogLimiter() *LogLimiter { return &LogLimiter{limit: rate.NewLimiter(mostLines, mostLines)} }

// Due reports whether a line may be written now.
func (l *LogLimiter) Due(now time.Duration) bool {
	ok := l.limit.AllowN(time.Time{}.Add(now), 1)
	if !ok {
		l.omitted.Add(1)
	}
	return ok
}

// Omitted is how many lines were not written since it was last called.
func (l *LogLimiter) Omitted() uint64 { return l.omitted.Swap(0) }
