package trial

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// record is what the policy on trial and the one in charge have earned since
// the trial began, and what was ordered last.
type record struct {
	on atomic.Bool // changed under the lock

	mu       sync.Mutex // protects all below, and trials beginning and ending
	since    time.Duration
	charge   arm
	trial    arm
	reported uint64 // judged requests that are on neither side, since a client judged them
	last     *Order
	ordered  time.Duration // when the last was
}

// arm sums the utility of the judged requests of one side.
type arm struct {
	requests, met uint64
	sum, square   float64
}

func (a *arm) add(e Ended) {
	a.requests++
	if e.Met {
		a.met++
	}
	a.sum += e.Utility
	a.square += e.Utility * e.Utility
}

func (a *arm) mean() float64 { return a.sum / max(1, float64(a.requests)) }

// variance of the mean.
func (a *arm) variance() float64 {
	n := float64(a.requests)
	if n < 2 {
		return 0
	}
	return max(0, a.square/n-a.mean()*a.mean()) / (n - 1)
}

// begin starts to count from zero at the time now. The lock is held.
func (r *record) begin(now time.Duration) {
	r.since, r.charge, r.trial, r.reported = now, arm{}, arm{}, 0
	r.on.Store(true)
}

// The z-scores of intervals: 95 % for people to read, and 99.9 % for an end
// without an order, which looks again and again and would find a chance sooner
// or later at 95 %.
const (
	z95  = 1.96
	z999 = 3.29
)

// againEvery is the number of a canary's requests between two looks at it.
const againEvery = 50

// Ended is a judged request that the policy in charge or the one on trial has routed.
type Ended struct {
	Arrival time.Duration
	// Trial says that it fell in the share of the policy on trial, whichever decided it
	// in the end.
	Trial bool
	// Reported says that its outcome is what a client reported.
	Reported bool
	Met      bool
	Utility  float64
}

// Ended enters the request on its side. Requests from before the trial are on neither
// side. Nor are those whose outcome a client reported, which are counted apart.
func (t *Trials) Ended(e Ended) {
	r := &t.record
	if !r.on.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on.Load() || e.Arrival < r.since {
		return
	}
	if e.Reported {
		r.reported++
		return
	}
	if !e.Trial {
		r.charge.add(e)
		return
	}
	r.trial.add(e)
	c := t.options.Config()
	if !c.Rollback || r.trial.requests%againEvery != 0 || min(r.charge.requests, r.trial.requests) < uint64(c.MinRequests) {
		return
	}
	if m := r.measured(z999); m.High < 0 {
		t.endTrial(byTrial, fmt.Sprintf("utility %.4f (%.4f to %.4f) compared with the policy in charge, over %d requests", m.Difference, m.Low, m.High, r.trial.requests))
	}
}

// endTrial ends the trial, and remembers why. The record's lock is held.
func (t *Trials) endTrial(by, why string) bool {
	now, ok := t.options.Policies.Trial()
	if !ok || !t.options.Policies.EndTrial() {
		return false
	}
	t.record.on.Store(false)
	t.ordered(Order{Order: orderEnd, Policy: now.Policy, By: by, Why: why})
	return true
}

// ordered notes what was done last. The record's lock is held.
func (t *Trials) ordered(o Order) {
	t.record.last, t.record.ordered = &o, t.options.Clock()
	t.options.Log.Info("policy order", "order", o.Order, "policy", o.Policy, "by", o.By, "why", o.Why, "in_charge", t.options.InCharge())
}

// Interval is the difference of two means, the trial's less that of the policy in
// charge, within its 95 % interval.
type Interval struct {
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
}

// Side is what one policy's requests have earned.
type Side struct {
	Requests    uint64  `json:"requests"`
	DeadlineMet uint64  `json:"deadline_met"`
	Utility     float64 `json:"utility"` // mean
}

// Measured is what was earned, side by side. The sides share the fleet: what one
// does to the load, the other feels.
type Measured struct {
	InCharge Side `json:"in_charge"`
	Trial    Side `json:"trial"`
	Interval
	// Verdict is better, worse, or undecided.
	Verdict string `json:"verdict"`
	// Reported is how many requests were left out, since only the client that held their
	// lease knows their outcome.
	Reported uint64 `json:"told_by_clients,omitempty"`
}

// measured compares both sides (Welch). The lock is held.
func (r *record) measured(z float64) Measured {
	side := func(a *arm) Side { return Side{Requests: a.requests, DeadlineMet: a.met, Utility: a.mean()} }
	m := Measured{InCharge: side(&r.charge), Trial: side(&r.trial), Verdict: "undecided", Reported: r.reported}
	if r.charge.requests < 2 || r.trial.requests < 2 {
		return m
	}
	m.Interval = intervalOf(r.trial.mean()-r.charge.mean(), math.Sqrt(r.charge.variance()+r.trial.variance()), z)
	switch {
	case m.Low > 0:
		m.Verdict = "better"
	case m.High < 0:
		m.Verdict = "worse"
	}
	return m
}

func intervalOf(difference, deviation, z float64) Interval {
	return Interval{Difference: difference, Low: difference - z*deviation, High: difference + z*deviation}
}
