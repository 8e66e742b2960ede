package main

import (
	"context"
	"sync/atomic"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// playTimed evaluates one contestant and measures its decisions.
func playTimed(ctx context.Context, c evaluation.Contestant, work []evaluation.Workload, seeds []uint64) ([]boundRow, error) {
	var watch stopwatch
	var took []float64 // ms per decision, by workload
	members := map[string][]float64{}
	began := time.Now()
	plan := evaluation.Plan{
		Contestants: []evaluation.Contestant{watch.on(c)}, Workloads: work, Seeds: seeds,
		Clock: func() time.Duration { return time.Since(began) },
		Progress: func(done, _ int) {
			took = append(took, watch.lap())
			group := work[done-1].Group
			members[group] = append(members[group], took[done-1])
		},
	}
	results, err := plan.Evaluate(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]boundRow, len(results))
	for i, r := range results {
		rows[i] = boundRow{
			Policy: r.Policy, Workload: r.Workload, Requests: r.Requests, Utility: r.Utility,
			Windows: r.Windows, SimRequestsPerS: r.SimRequestsPerS,
		}
		if i < len(took) {
			rows[i].MSPerDecision = took[i]
		} else { // a group's row follows its workloads
			rows[i].MSPerDecision = average(members[r.Workload])
		}
	}
	return rows, nil
}

// stopwatch measures the time that decisions take, in all runs together.
type stopwatch struct{ spent, decisions atomic.Int64 }

// on is the contestant with a decider that is measured, its preparation too.
func (w *stopwatch) on(c evaluation.Contestant) evaluation.Contestant {
	open := c.Open
	if open == nil {
		decider := c.Decider
		open = func(*env.Environment, uint64) (evaluation.Decider, error) { return decider, nil }
	}
	c.Open = func(e *env.Environment, seed uint64) (evaluation.Decider, error) {
		began := time.Now()
		decider, err := open(e, seed)
		w.spent.Add(int64(time.Since(began)))
		if placer, ok := decider.(evaluation.Placer); ok {
			return timedPlacer{decider, placer, w}, err
		}
		return timedDecider{decider, w}, err
	}
	return c
}

// decided counts a decision that began at a time and is made.
func (w *stopwatch) decided(began time.Time) {
	w.spent.Add(int64(time.Since(began)))
	w.decisions.Add(1)
}

// lap is the milliseconds per decision since the last lap.
func (w *stopwatch) lap() float64 {
	spent, decisions := w.spent.Swap(0), w.decisions.Swap(0)
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
