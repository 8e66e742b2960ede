package policies

import (
	"context"
	"sync/atomic"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// BoundRow is how a policy, or a clairvoyant over it, did on a workload.
type BoundRow struct {
	Base     string              `json:"base"` // the caller's to fill
	Policy   string              `json:"policy"`
	Workload string              `json:"workload"`
	Requests int                 `json:"requests"`
	Utility  evaluation.Interval `json:"utility"`
	Windows  map[string]float64  `json:"windows"`
	// MSPerDecision is the time that a choice took on one core, in milliseconds.
	// It and SimRequestsPerS, on all cores, differ from run to run.
	MSPerDecision   float64 `json:"ms_per_decision"`
	SimRequestsPerS float64 `json:"sim_requests_per_s"`
}

// PlayBound evaluates one contestant and measures its decisions. Its errors are those of
// [evaluation.Plan.Evaluate].
func PlayBound(ctx context.Context, c evaluation.Contestant, work []evaluation.Workload, seeds []uint64) ([]BoundRow, error) {
	watches := stopwatches{}
	for i := range work {
		watches[work[i].Name] = &stopwatch{}
	}
	began := time.Now()
	plan := evaluation.Plan{
		Contestants: []evaluation.Contestant{watches.on(c)}, Workloads: work, Seeds: seeds,
		Clock: func() time.Duration { return time.Since(began) },
	}
	results, err := plan.Evaluate(ctx)
	if err != nil {
		return nil, err
	}
	members := map[string][]float64{} // of a group: ms per decision
	for i := range work {
		members[work[i].Group] = append(members[work[i].Group], watches[work[i].Name].perDecision())
	}
	rows := make([]BoundRow, len(results))
	for i, r := range results {
		rows[i] = BoundRow{
			Policy: r.Policy, Workload: r.Workload, Requests: r.Requests, Utility: r.Utility,
			Windows: r.Windows, SimRequestsPerS: r.SimRequestsPerS,
		}
		if watch := watches[r.Workload]; watch != nil {
			rows[i].MSPerDecision = watch.perDecision()
		} else { // a group's row
			rows[i].MSPerDecision = average(members[r.Workload])
		}
	}
	return rows, nil
}

// stopwatch measures the time that decisions take, in all runs together.
type stopwatch struct{ spent, decisions atomic.Int64 }

// stopwatches are those of all workloads.
type stopwatches map[string]*stopwatch

// on returns the contestant with a decider that is measured, its preparation too.
func (w stopwatches) on(c evaluation.Contestant) evaluation.Contestant {
	open := c.Open
	if open == nil {
		decider := c.Decider
		open = func(*env.Environment, evaluation.Run) (evaluation.Decider, error) { return decider, nil }
	}
	c.Open = func(e *env.Environment, r evaluation.Run) (evaluation.Decider, error) {
		watch := w[r.Workload]
		began := time.Now()
		decider, err := open(e, r)
		watch.spent.Add(int64(time.Since(began)))
		if placer, ok := decider.(evaluation.Placer); ok {
			return timedPlacer{decider, placer, watch}, err
		}
		return timedDecider{decider, watch}, err
	}
	return c
}

// decided counts a decision that began at a time and is made.
func (w *stopwatch) decided(began time.Time) {
	w.spent.Add(int64(time.Since(began)))
	w.decisions.Add(1)
}

// perDecision is in milliseconds.
func (w *stopwatch) perDecision() float64 {
	spent, decisions := w.spent.Load(), w.decisions.Load()
	if decisions == 0 {
		return 0
	}
	return float64(spent) / float64(time.Millisecond) / float64(decisions)
}

type timedDecider struct {
	evaluation.Decider
	watch *stopwatch
}

// Decide implements [evaluation.Decider].
func (d timedDecider) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	began := time.Now()
	variant := d.Decider.Decide(v, r, scratch)
	d.watch.decided(began)
	return variant
}

// timedPlacer is a timedDecider that chooses the replica.
type timedPlacer struct {
	evaluation.Decider
	placer evaluation.Placer
	watch  *stopwatch
}

// Place implements [evaluation.Placer].
func (d timedPlacer) Place(v *fleet.View, r *fleet.Request, scratch []float32) int {
	began := time.Now()
	replica := d.placer.Place(v, r, scratch)
	d.watch.decided(began)
	return replica
}
