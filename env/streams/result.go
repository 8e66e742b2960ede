package streams

import (
	"math"
	"time"
)

// Result reports on a run, from the end of its warm-up on.
type Result struct {
	// Clients is the mean of those that the server serves at a time.
	Clients float64
	// Busy is the share of the time in which it runs batches, in the mean over hosts, Batch the mean of their sizes, and
	// Interval that of the frames from one request of a client to its next.
	Busy, Batch, Interval float64
	// Batches counts those that began, and Late is the share of them that began after their planned start.
	Batches int
	Late    float64
	// Missed counts requests that came after the grace of their batches, which had begun without them.
	Missed int
	// Drop is what clients lose in whole seconds in the mean, Worst the most, and Broken the share of seconds in
	// which a client loses more than its SLA.
	Drop, Worst, Broken float64
	// Seconds are the whole seconds of all clients.
	Seconds int
	// EstimateError is that of a rate times the interval: of a drop.
	EstimateError Moments
	// Fluid is the part of the server that its clients would take if intervals need not be whole and nothing waited or
	// varied: of a server that carries as many of them as can be it is 1.
	Fluid float64
	// ResultsPerS counts the results that clients have in a second.
	ResultsPerS float64
	// Evicted counts clients that had to leave the server, and Moved has the seconds that those whose host had failed waited
	// for the first result of another.
	Evicted int
	Moved   Moments
	// Last are the batches that began in the last second of the run.
	Last []Ran
}

// Ran is a batch that began so long before the end of the run.
type Ran struct {
	Before, Took  time.Duration
	Frames, Model int
}

// Moments sums numbers up.
type Moments struct {
	N         int
	Sum, Most float64
}

// Add adds a number.
func (m *Moments) Add(x float64) {
	m.N++
	m.Sum += x
	m.Most = max(m.Most, math.Abs(x))
}

// Mean returns the mean; 0 of none.
func (m *Moments) Mean() float64 { return m.Sum / float64(max(1, m.N)) }

// window counts what a client has lost within a second.
func (r *run) window(c *client, drop float64) {
	if r.now < r.Warmup {
		return
	}
	r.res.Seconds++
	r.res.Drop += drop
	r.res.Worst = max(r.res.Worst, drop)
	if drop > c.SLA+1e-9 {
		r.broken++
	}
}

// Result returns that of a run which ends now.
func (r *run) Result(now time.Duration) *Result {
	r.now = now
	r.countServed()
	x, measured := r.res, (now - r.Warmup).Seconds()
	x.Clients = r.servedTime / measured
	x.Busy = r.busyTime / measured / float64(len(r.servers))
	x.ResultsPerS = float64(r.results) / measured
	x.Fluid = r.fluid.Mean()
	x.Drop /= float64(max(1, x.Seconds))
	x.Broken = float64(r.broken) / float64(max(1, x.Seconds))
	x.Late = float64(r.late) / float64(max(1, x.Batches))
	x.Batch = r.sizes.Mean()
	x.Interval = r.intervals.Mean()
	return &x
}
