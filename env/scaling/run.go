package scaling

import (
	"fmt"
	"slices"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/placement/replicas"
)

// Config is one run.
type Config struct {
	Series *Series
	Scaler replicas.Scaler
	// Capacity is how many examples a replica answers in a second.
	Capacity float64
	// WarmUp is how long a replica takes from its start until it answers. It is paid for
	// meanwhile.
	WarmUp time.Duration
	// Period is how often the scaler is asked, in whole seconds.
	Period time.Duration
	// Patience is how long an example waits for a replica. One that would wait longer is refused.
	Patience time.Duration
	// Start is how many replicas there are at first.
	Start int
	// Peak is the share of minutes that are no peaks: those with the highest rates of the series
	// are.
	Peak float64
}

// Result is what came of a run.
type Result struct {
	Examples, Refused         float64
	PeakExamples, PeakRefused float64
	// ReplicaHours is the time of replicas that were up or starting.
	ReplicaHours float64
	// Starts is how many replicas were started.
	Starts int
	// Counts is how many replicas were up or starting at the end of each minute.
	Counts []int
	// RefusedBy is the examples that were refused in each minute.
	RefusedBy []float64
}

// Errors is the share of examples that were refused.
func (r *Result) Errors() float64 { return r.Refused / max(1, r.Examples) }

// PeakErrors is the share of the peaks' examples that were refused.
func (r *Result) PeakErrors() float64 { return r.PeakRefused / max(1, r.PeakExamples) }

// Run simulates, a second at a time. The replicas share one queue.
func Run(c *Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := run{Config: c, up: c.Start, peak: c.Series.quantile(c.Peak)}
	for s, arrived := range c.Series.Arrivals {
		r.second(s, arrived)
	}
	return &r.result, nil
}

func (c *Config) validate() error {
	var found faults.List
	found.If(c.Series == nil || len(c.Series.Arrivals) == 0, "no arrivals")
	found.If(c.Scaler == nil, "nothing says how many replicas there should be")
	found.If(!(c.Capacity > 0), "a capacity of %v examples/s; want more than 0", c.Capacity)
	found.If(c.WarmUp < 0 || c.Patience < 0, "a warm-up of %v and a patience of %v; want none below 0", c.WarmUp, c.Patience)
	found.If(c.Period < time.Second || c.Period%time.Second != 0, "a period of %v; want whole seconds, at least 1", c.Period)
	found.If(c.Start < 0, "%d replicas at first; want 0 or more", c.Start)
	found.If(!(c.Peak >= 0 && c.Peak < 1), "peaks from a share of %v; want from 0 to less than 1", c.Peak)
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot simulate the scaling: %w", err)
	}
	return nil
}

// quantile is the rate that a share p of the minutes does not exceed.
func (s *Series) quantile(p float64) float64 {
	sorted := slices.Sorted(slices.Values(s.Rates))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// run is one under way.
type run struct {
	*Config
	result   Result
	peak     float64 // the rate from which a minute is one
	up       int
	starting []int // the seconds at which replicas are up, in order
	queued   float64
	arrived  float64 // since the scaler was asked
	refused  float64 // in this minute
}

// second has a second pass.
func (r *run) second(s int, arrived float64) {
	for len(r.starting) > 0 && r.starting[0] <= s {
		r.starting = r.starting[1:]
		r.up++
	}
	refused := r.answer(arrived)
	r.result.Examples += arrived
	r.result.Refused += refused
	if r.Series.Rates[s/60] >= r.peak {
		r.result.PeakExamples += arrived
		r.result.PeakRefused += refused
	}
	r.result.ReplicaHours += float64(r.up+len(r.starting)) / 3600
	r.arrived += arrived
	r.refused += refused
	if period := int(r.Period / time.Second); (s+1)%period == 0 {
		now := time.Duration(s+1) * time.Second
		r.scale(s+1, r.Scaler.Desired(now, r.arrived/float64(period), r.up+len(r.starting)))
		r.arrived = 0
	}
	if (s+1)%60 == 0 {
		r.result.Counts = append(r.result.Counts, r.up+len(r.starting))
		r.result.RefusedBy = append(r.result.RefusedBy, r.refused)
		r.refused = 0
	}
}

// answer has the replicas answer for a second, and returns how many examples are refused.
func (r *run) answer(arrived float64) (refused float64) {
	capacity := r.Capacity * float64(r.up)
	r.queued = max(0, r.queued+arrived-capacity)
	refused = max(0, r.queued-capacity*r.Patience.Seconds())
	r.queued -= refused
	return refused
}

// scale starts replicas, or ends some: those first that are not up yet.
func (r *run) scale(second, desired int) {
	n := r.up + len(r.starting)
	for ; n < desired; n++ {
		r.starting = append(r.starting, second+int(r.WarmUp/time.Second))
		r.result.Starts++
	}
	for ; n > max(0, desired); n-- {
		if last := len(r.starting) - 1; last >= 0 {
			r.starting = r.starting[:last]
		} else {
			r.up--
		}
	}
}
