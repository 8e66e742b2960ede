package placements

import (
	"errors"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/placement/layouts"
	"gearshift/workloads"
)

// simulation plays episodes of a scenario, whose layouts a function decides.
type simulation struct {
	env     *env.Environment
	decider evaluation.Decider
	scratch []float32
	rule    layouts.Rule // of the present episode
}

// newSimulation returns a simulation under loads. Known has the rate known. Requests are routed by the scenario's first rule.
func newSimulation(s *scenario.Scenario, l *loads, known bool) (*simulation, error) {
	w, own := &simulation{}, *s
	own.Chooser = func() layouts.Rule { return w.rule }
	own.Served = true
	c, err := own.Simulation()
	if err != nil {
		return nil, err
	}
	c.KnownRate = known
	tasks := c.Table.Tasks
	c.Open = func(seed uint64) (workloads.Stream, error) {
		p, err := workloads.NewSchedule(l.draw(seed)...)
		if err != nil {
			return nil, err
		}
		return workloads.New(p, tasks, own.Workload, seed, workloads.Limit{})
	}
	maker, err := own.Maker(c.Table)
	if err != nil {
		return nil, err
	}
	if w.decider, err = maker.Parse(Routing(s)); err != nil {
		return nil, err
	}
	w.scratch = make([]float32, w.decider.Scratch())
	w.env, err = env.New(c)
	return w, err
}

// Routing returns the rule by which requests are routed: the first of the scenario's.
func Routing(s *scenario.Scenario) string {
	if len(s.Evaluation.Rules) > 0 {
		return s.Evaluation.Rules[0]
	}
	return "task-aware"
}

// play plays an episode, and returns what a request earns in the mean.
func (w *simulation) play(seed uint64, r layouts.Rule) (float64, error) {
	w.rule = r
	if _, err := w.env.Reset(seed); errors.Is(err, env.ErrNoRequest) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	earned, requests := 0.0, 0
	for {
		step, err := evaluation.Route(w.env, w.decider, w.scratch)
		if err != nil {
			return 0, err
		}
		for i := range step.Info.Outcomes {
			earned += step.Info.Outcomes[i].Utility
		}
		requests += len(step.Info.Outcomes)
		if step.Terminated || step.Truncated {
			return earned / float64(max(1, requests)), nil
		}
	}
}
