package serving

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router"
)

// TrialConfig is what happens to a policy on trial without an order.
type TrialConfig struct {
	// Rollback ends the trial of a canary that is worse than the policy in charge.
	Rollback bool `yaml:"rollback,omitempty"`
	// MinRequests is how many judged requests of each must have ended before.
	MinRequests int `yaml:"min_requests"`
}

// Validate names every fault of the configuration, by its YAML key.
func (t TrialConfig) Validate() error {
	if t.MinRequests < 30 {
		return fmt.Errorf("trial.min_requests: %d; want at least 30, of which a mean says something", t.MinRequests)
	}
	return nil
}

// trialRecord is what the policy on trial and the one in charge have earned since
// the trial began, and what was ordered last.
type trialRecord struct {
	on atomic.Bool // changed under the lock

	mu      sync.Mutex // protects all below, and trials beginning and ending
	since   time.Duration
	charge  arm
	trial   arm
	told    uint64 // judged requests that are on neither side, since a client judged them
	last    *PolicyOrder
	ordered time.Duration // when the last was
}

// arm sums the utility of the judged requests of one side.
type arm struct {
	requests, met uint64
	sum, square   float64
}

func (a *arm) add(r Result) {
	a.requests++
	if r.Met {
		a.met++
	}
	a.sum += r.Utility
	a.square += r.Utility * r.Utility
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

// begin starts counting anew, from the time now on. The lock is held.
func (t *trialRecord) begin(now time.Duration) {
	t.since, t.charge, t.trial, t.told = now, arm{}, arm{}, 0
	t.on.Store(true)
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

// trialWatcher enters what is over in the record of the trial.
type trialWatcher struct{ *Server }

// Ended implements [Watcher]. It enters the request on its side, by the share that
// it fell in, whoever decided it in the end. Requests from before the trial, and
// those that asked for a variant by name, are on neither side. Nor are those whose
// outcome is what a client said of it, which are counted apart.
func (s trialWatcher) Ended(w *Work, r Result) {
	t := &s.trial
	if !t.on.Load() || !r.Judged || w.Policy == router.Pinned {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on.Load() || w.Request.Arrival < t.since {
		return
	}
	if r.Told {
		t.told++
		return
	}
	if !w.Trial {
		t.charge.add(r)
		return
	}
	t.trial.add(r)
	c := s.settings().Trial
	if !c.Rollback || t.trial.requests%againEvery != 0 || min(t.charge.requests, t.trial.requests) < uint64(c.MinRequests) {
		return
	}
	if m := t.measured(z999); m.High < 0 {
		s.endTrial(byTrial, fmt.Sprintf("utility %.4f (%.4f to %.4f) beside the policy in charge, over %d requests", m.Difference, m.Low, m.High, t.trial.requests))
	}
}

// endTrial ends the trial, and remembers why. The trial's lock is held.
func (s *Server) endTrial(by, why string) bool {
	now, ok := s.seats.Trial()
	if !ok || !s.seats.EndTrial() {
		return false
	}
	s.trial.on.Store(false)
	s.ordered(PolicyOrder{Order: orderEnd, Policy: now.Policy, By: by, Why: why})
	return true
}

// ordered notes what was done last. The trial's lock is held.
func (s *Server) ordered(o PolicyOrder) {
	s.trial.last, s.trial.ordered = &o, s.clock()
	s.log.Info("policy order", "order", o.Order, "policy", o.Policy, "by", o.By, "why", o.Why, "in_charge", s.router.PolicyName())
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
	// Told is how many requests were left out, since only the client that held their
	// lease knows their outcome.
	Told uint64 `json:"told_by_clients,omitempty"`
}

// measured compares both sides (Welch). The lock is held.
func (t *trialRecord) measured(z float64) Measured {
	side := func(a *arm) Side { return Side{Requests: a.requests, DeadlineMet: a.met, Utility: a.mean()} }
	m := Measured{InCharge: side(&t.charge), Trial: side(&t.trial), Verdict: "undecided", Told: t.told}
	if t.charge.requests < 2 || t.trial.requests < 2 {
		return m
	}
	m.Interval = intervalOf(t.trial.mean()-t.charge.mean(), math.Sqrt(t.charge.variance()+t.trial.variance()), z)
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

var errNoSeats = errors.New("the router's policy cannot be changed")
