package main

import (
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
	task             int
	variant          int
	tokens           int
	arrival          time.Duration
	first, last      time.Duration
	inTime           bool
	utility          float64
	ttft, tpot, pace float64 // ms
}

// fill reckons what follows from a request's times.
func (m *met) fill(t *fleet.Table) {
	m.ttft = float64(m.first-m.arrival) / float64(time.Millisecond)
	m.pace = float64(m.last-m.arrival) / float64(time.Millisecond) / float64(m.tokens)
	if m.tokens > 1 {
		m.tpot = float64(m.last-m.first) / float64(time.Millisecond) / float64(m.tokens-1)
	}
	task := &t.Tasks[m.task]
	pace := (m.last - m.arrival) / time.Duration(m.tokens)
	m.inTime = pace <= task.Deadline
	m.utility = task.Utility(m.variant, pace, 0)
}

// given is a workload given request by request.
type given struct {
	list []workloads.Arrival
	next int
}

// Next implements [workloads.Stream].
func (s *given) Next() (workloads.Arrival, bool) {
	if s.next == len(s.list) {
		return workloads.Arrival{}, false
	}
	s.next++
	return s.list[s.next-1], true
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

// simulatedRun is how the arrivals go in the simulator, in their order.
func simulatedRun(c env.Config, arrivals []workloads.Arrival, d evaluation.Decider) ([]met, error) {
	c.Open = func(uint64) (workloads.Stream, error) { return &given{list: arrivals}, nil }
	e, err := env.New(c)
	if err != nil {
		return nil, err
	}
	if _, err := e.Reset(workloads.Seed(workloads.Evaluation, 0)); err != nil {
		return nil, err
	}
	list := make([]met, len(arrivals))
	scratch := make([]float32, d.Scratch())
	for {
		var step env.Step
		if p, ok := d.(evaluation.Placer); ok {
			step, err = e.Place(p.Place(e.View(), e.Request(), scratch))
		} else {
			step, err = e.Step(d.Decide(e.View(), e.Request(), scratch))
		}
		if err != nil {
			return nil, err
		}
		for _, o := range step.Info.Outcomes {
			// The simulator's clients are at the engine; those that measured it are not.
			way := profile.Duration(c.Profiles[o.Replica].Request)
			m := &list[o.Decision]
			*m = met{
				task: o.Request.Task, variant: o.Variant, tokens: o.OutputTokens,
				arrival: o.Request.Arrival, first: o.FirstToken + way, last: o.Finished + way,
			}
			m.fill(c.Table)
		}
		if step.Terminated || step.Truncated {
			return list, nil
		}
	}
}

// drawn are the requests of a Poisson workload, at least so many.
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

// capacity is the rate at which a replica alone takes twice the time per token of
// one request at a time, by its profile: load 1.
func capacity(c env.Config, s *workloads.Settings, replica int) (float64, error) {
	const requests = 200
	pace := func(rate float64) (float64, error) {
		arrivals, err := drawn(s, rate, requests, workloads.Seed(workloads.Evaluation, 1))
		if err != nil {
			return 0, err
		}
		places := make([]int, len(arrivals))
		for i := range places {
			places[i] = replica
		}
		list, err := simulatedRun(c, arrivals, &pinned{replicas: places})
		if err != nil {
			return 0, err
		}
		var sum float64
		for i := range list {
			sum += list[i].pace / float64(len(list))
		}
		return sum, nil
	}
	const alone = 1e-3 // requests a second
	least, err := pace(alone)
	if err != nil {
		return 0, err
	}
	low, high := alone, alone
	for p := least; p < 2*least; high *= 2 {
		if high > 1e6 {
			return 0, fmt.Errorf("the profile of replica %s costs nothing", c.Table.Replicas[replica].Name)
		}
		low = high
		if p, err = pace(high * 2); err != nil {
			return 0, err
		}
	}
	for range 8 {
		middle := (low + high) / 2
		p, err := pace(middle)
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
