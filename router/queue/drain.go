package queue

import (
	"math"
	"time"
)

// drained is over how many of the latest turns the rate is measured.
const drained = 32

// Drain measures the rate at which a queue is served: the latest turns over the time since
// the first of them. Without turns the rate falls, so that it follows the present. The zero
// value has seen none.
type Drain struct {
	turns [drained]time.Duration
	n     int // in all
}

// Served counts a turn. Times must not run back.
func (d *Drain) Served(now time.Duration) {
	d.turns[d.n%drained] = now
	d.n++
}

// Reset forgets all turns. The owner calls it when the queue is empty: what was served
// before says nothing about how fast the next queue will be.
func (d *Drain) Reset() { d.n = 0 }

// few is the number of turns below which the rate is unknown.
const few = 4

// Rate returns the turns per second, and false if they are unknown.
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

// Wait returns how long the queue takes to serve ahead entries, and false if that is unknown.
func (d *Drain) Wait(ahead int, now time.Duration) (wait time.Duration, ok bool) {
	rate, ok := d.Rate(now)
	if !ok {
		return 0, false
	}
	return seconds(float64(ahead) / rate), true
}

// seconds converts to a Duration without overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), math.MaxInt64/2))
}

// RetryAfter returns after which time a refused client should retry, in whole seconds: when
// the entries ahead have been served, within least and most.
func (d *Drain) RetryAfter(ahead int, now time.Duration, least, most time.Duration) time.Duration {
	wait, _ := d.Wait(ahead+1, now)
	wait = max(least, min(wait, most), time.Second)
	return (wait + time.Second - 1).Truncate(time.Second)
}
