package main

import (
	"fmt"
	"time"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/balance"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// simulation is the scenario's fleet in the simulator, without a workload.
func simulation(s *scenario.Scenario) (env.Config, error) {
	balancer, err := newBalancer(s)
	if err != nil {
		return env.Config{}, err
	}
	return env.Config{
		Table: s.Table(), Profiles: s.Profiles(), KVTokens: s.KVTokens(),
		Engine: s.Engine, Balancer: balancer,
		Forecaster: profile.NewForecaster(s.Profiles()),
	}, nil
}

// newBalancer is the scenario's, with the affinity that it asks for: the same in the
// simulator, where no request is of a session, and in the router.
func newBalancer(s *scenario.Scenario) (balance.Balancer, error) {
	b, err := balance.Make(s.Serving.Balancer, balance.Known{Profiles: s.Profiles(), Context: ruleLengths(s).Context})
	if affinity := s.Serving.Server.Affinity; err == nil && affinity.On() {
		b = balance.Affinity{Balancer: b, Bound: affinity.Bound}
	}
	return b, err
}

// settings is what a workload's name leaves to the scenario.
func settings(s *scenario.Scenario, requests int) workloads.Settings {
	return workloads.Settings{
		Tasks: s.Table().Tasks, Shape: s.Workload, Requests: requests,
		Phase:     time.Duration(s.Evaluation.PhaseS * float64(time.Second)),
		RateScale: float64(s.Evaluation.RateScale),
		Fits:      s.SmallestCache(),
	}
}

// evaluated turns workload names into the evaluation's workloads; a sweep
// becomes one at each of the scenario's rates, reported as a group too.
func evaluated(s *scenario.Scenario, names []string, requests int) ([]evaluation.Workload, error) {
	set := settings(s, requests)
	var list []evaluation.Workload
	for _, name := range names {
		spec, err := workloads.Parse(name)
		if err != nil {
			return nil, err
		}
		for _, one := range spec.Expand(s.Evaluation.StableRates) {
			open, err := one.Prepare(set)
			if err != nil {
				return nil, err
			}
			if _, err := open(0); err != nil { // what only a stream finds out
				return nil, err
			}
			w := evaluation.Workload{Name: one.String(), KnownRate: one.TrueRate(), Open: open, Depart: departing(one.Departure)}
			fleet := env.Config{Table: s.Table(), Profiles: s.Profiles()}
			if err := w.Depart(&fleet); err != nil {
				return nil, fmt.Errorf("cannot play workload %q: %w", one, err)
			}
			if spec.Sweep() {
				w.Group = spec.String()
			}
			list = append(list, w)
		}
	}
	return list, nil
}

// departing changes a fleet as the workload asks.
func departing(d workloads.Departure) func(*env.Config) error {
	return func(c *env.Config) error {
		if d.GPU != 0 {
			c.SlowGPU(d.GPU)
		}
		if d.Lost == (workloads.Loss{}) {
			return nil
		}
		return c.Lose(d.Lost.Host, d.Lost.From, d.Lost.To)
	}
}

// seeds are the first n of a domain, whose seeds no other domain shares.
func seeds(d workloads.Domain, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = workloads.Seed(d, uint64(i))
	}
	return list
}

// ruleLengths is what slack-fit expects of a request: the mean output, and the
// mean context of a running sequence, the prompt and half of the output.
func ruleLengths(s *scenario.Scenario) policy.Lengths {
	prompt, output := s.Workload.Prompt.Expected(), s.Workload.Output.Expected()
	return policy.Lengths{Context: prompt + output/2, Output: output}
}
