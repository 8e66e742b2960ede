package validation

import (
	"context"
	"fmt"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// met is how a request went, measured or predicted.
type met struct {
	task                 int
	variant              int
	tokens               int
	arrival              time.Duration
	first, last          time.Duration
	inTime               bool
	utility              float64
	ttft, tpot, perToken float64 // ms
}

// fill reckons what follows from a request's times.
func (m *met) fill(t *fleet.Table) {
	m.ttft = float64(m.first-m.arrival) / float64(time.Millisecond)
	m.perToken = float64(m.last-m.arrival) / float64(time.Millisecond) / float64(m.tokens)
	if m.tokens > 1 {
		m.tpot = float64(m.last-m.first) / float64(time.Millisecond) / float64(m.tokens-1)
	}
	task := &t.Tasks[m.task]
	took := fleet.Took(m.first-m.arrival, m.last-m.arrival, m.tokens)
	deadlines := task.Deadlines(&fleet.Request{})
	m.inTime = deadlines.Met(took)
	m.utility = task.Utility(m.variant, took, deadlines)
}

// pinned sends each request where it was sent.
type pinned struct {
	replicas []int
	next     int
}

// Scratch implements [evaluation.Decider].
func (p *pinned) Scratch() int { return 0 }

// Decide implements [evaluation.Decider].
func (p *pinned) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	return v.Table.Replicas[p.Place(v, r, scratch)].Variant
}

// Place implements [evaluation.Placer].
func (p *pinned) Place(*fleet.View, *fleet.Request, []float32) int {
	p.next++
	return p.replicas[p.next-1]
}

// simulatedRun returns how the arrivals go in the simulator, in their order: so few that
// nothing has to end it.
func simulatedRun(c env.Config, arrivals []workloads.Arrival, d evaluation.Decider) ([]met, error) {
	w := evaluation.Workload{Open: func(uint64) (workloads.Stream, error) {
		given := workloads.Given(arrivals)
		return &given, nil
	}}
	samples, err := evaluation.Samples(context.Background(), &evaluation.Contestant{Decider: d, Fleet: c}, &w, workloads.Seed(workloads.Evaluation, 0))
	if err != nil {
		return nil, err
	}
	list := make([]met, len(samples))
	for i, s := range samples {
		// The simulator's clients are at the engine; those that measured it are not.
		way := profile.Duration(c.Profiles[s.Replica].Request)
		list[i] = met{
			task: s.Task, variant: s.Variant, tokens: s.OutputTokens,
			arrival: s.Arrival, first: s.FirstToken + way, last: s.Finished + way,
		}
		list[i].fill(c.Table)
	}
	return list, nil
}

// drawn returns the requests of a Poisson workload, at least so many.
func drawn(s *workloads.Settings, rate float64, requests int, seed uint64) ([]workloads.Arrival, error) {
	process, err := workloads.NewPoisson(rate)
	if err != nil {
		return nil, err
	}
	stream, err := workloads.New(process, s.Tasks, s.Shape, seed, workloads.Limit{Requests: requests})
	if err != nil {
		return nil, err
	}
	var list []workloads.Arrival
	for a, ok := stream.Next(); ok; a, ok = stream.Next() {
		list = append(list, a)
	}
	return list, nil
}

// capacity returns the rate at which a replica alone takes twice the time per token of
// one request at a time, by its profile: load 1.
func capacity(c env.Config, s *workloads.Settings, replica int) (float64, error) {
	const requests = 200
	perToken := func(rate float64) (float64, error) {
		arrivals, err := drawn(s, rate, requests, workloads.Seed(workloads.Evaluation, 1))
		if err != nil {
			return 0, err
		}
		replicas := make([]int, len(arrivals))
		for i := range replicas {
			replicas[i] = replica
		}
		list, err := simulatedRun(c, arrivals, &pinned{replicas: replicas})
		if err != nil {
			return 0, err
		}
		var sum float64
		for i := range list {
			sum += list[i].perToken / float64(len(list))
		}
		return sum, nil
	}
	const alone = 1e-3 // requests a second
	least, err := perToken(alone)
	if err != nil {
		return 0, err
	}
	low, high := alone, alone
	for p := least; p < 2*least; high *= 2 {
		if high > 1e6 {
			return 0, fmt.Errorf("the profile of replica %s costs nothing", c.Table.Replicas[replica].Name)
		}
		low = high
		if p, err = perToken(high * 2); err != nil {
			return 0, err
		}
	}
	for range 8 {
		middle := (low + high) / 2
		p, err := perToken(middle)
		if err != nil {
			return 0, err
		}
		if p < 2*least {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2, nil
}
