package queue

import (
	"math"
	"time"
)

// drained is how many of the last turns the rate counts.
const drained = 32

// Drain is the rate at which a queue is served: the last turns over the time since
// the first of them. It is of the present: without turns it falls.
// The zero value has seen none.
type Drain struct {
	turns [drained]time.Duration
	n     int // in all
}

// Served notes that one had its turn. Times do not run back.
func (d *Drain) Served(now time.Duration) {
	d.turns[d.n%drained] = now
	d.n++
}

// Reset forgets all turns, as when the queue was empty: it says nothing of how fast
// the next one will be served.
func (d *Drain) Reset() { d.n = 0 }

// few is the number of turns that say nothing of a rate yet.
const few = 4

// Rate is the turns per second; false if it is not known.
func (d *Drain) Rate(now time.Duration) (perSecond float64, ok bool) {
	if d.n < few {
		return 0, false
	}
	n, first := d.n, 0
	if d.n > drained {
		n, first = drained, d.n%drained
	}
	// Turns at one instant still make a finite rate.
	elapsed := max(now-d.turns[first], time.Millisecond)
	return float64(n-1) / elapsed.Seconds(), true
}

// Wait is how long a queue takes to serve so many.
func (d *Drain) Wait(ahead int, now time.Duration) (wait time.Duration, ok bool) {
	rate, ok := d.Rate(now)
	if !ok {
		return 0, false
	}
	return seconds(float64(ahead) / rate), true
}

// seconds is a time that cannot overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), math.MaxInt64/2))
}

// RetryAfter is when a refused client should come again, in whole seconds: after
// what waits has been served, at least least and at most most.
func (d *Drain) RetryAfter(ahead int, now time.Duration, least, most time.Duration) time.Duration {
	wait, _ := d.Wait(ahead+1, now)
	wait = max(least, min(wait, most), time.Second)
	return (wait + time.Second - 1).Truncate(time.Second)
}
