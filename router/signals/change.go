package signals

import (
	"math/bits"
	"time"
)

// Change replaces a counter by another for a growing share of the requests: if all clients compared
// by the new one at once, load would shift at once (META-11). Its zero value compares by [ByModel].
type Change struct {
	From, To Counter
	// Began is when the first request may use To, and Over how long it takes until all do. Zero is
	// at once.
	Began, Over time.Duration
}

// Share returns the part of the requests that use the new counter.
func (c Change) Share(now time.Duration) float64 {
	switch {
	case now >= c.Began+c.Over:
		return 1
	case now <= c.Began:
		return 0
	}
	return float64(now-c.Began) / float64(c.Over)
}

// Counter returns the one that a request uses, by a random number.
func (c Change) Counter(random uint64, now time.Duration) Counter {
	const scale = 1 << 32
	if high, _ := bits.Mul64(random, scale); float64(high) < c.Share(now)*scale {
		return c.To
	}
	return c.From
}

// Next returns the change to a counter that is wanted from now on. A change under way that is taken
// back goes back from where it is; one to a third counter begins with the counter that most requests
// use.
func (c Change) Next(to Counter, over, now time.Duration) Change {
	done := c.Share(now)
	switch {
	case to == c.To:
		return c
	case to == c.From:
		return Change{From: c.To, To: to, Began: now - time.Duration((1-done)*float64(over)), Over: over}
	case done < 0.5:
		return Change{From: c.From, To: to, Began: now, Over: over}
	}
	return Change{From: c.To, To: to, Began: now, Over: over}
}
