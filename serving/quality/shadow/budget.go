package shadow

import (
	"sync"
	"time"
)

// budget bounds the output tokens of an hour.
type budget struct {
	mu    sync.Mutex // protects all below
	since time.Duration
	spent int // since then, with what is reserved
}

// left reports whether any tokens are left of so many in an hour.
func (b *budget) left(most int, now time.Duration) bool { return b.reserve(0, most-1, now) }

// reserve takes tokens of so many in an hour, and reports false if they are not left.
func (b *budget) reserve(tokens, most int, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now-b.since >= time.Hour {
		b.since, b.spent = now, 0
	}
	if b.spent+tokens > most {
		return false
	}
	b.spent += tokens
	return true
}

// settle replaces a reservation by what was spent. One of an hour that is over is not given back.
func (b *budget) settle(reserved, spent int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = max(0, b.spent+spent-reserved)
}
