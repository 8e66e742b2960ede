package policies

import (
	"context"
	"fmt"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/planner"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// FluidLimit is the fluid bound on a workload: the utility of a request, the mean over them.
type FluidLimit struct {
	Workload string  `json:"workload"`
	Utility  float64 `json:"utility"`
	// Steady says that all requests came at one rate. Else the figure is the mean
	// of the bounds at their rates, as if each lasted: a guide, not a bound.
	Steady bool `json:"steady"`
}

// FluidBound bounds the utility on each workload, by the true rates of the very requests
// that are played; the groups' means follow. Workloads whose rates are unknown have no
// limit; nor have those that depart from the scenario, which is what the bound is of.
// It fails where the scenario has no simulation or the context ends.
func FluidBound(ctx context.Context, s *scenario.Scenario, work []evaluation.Workload, seeds []uint64) ([]FluidLimit, error) {
	config, err := s.Simulation()
	if err != nil {
		return nil, err
	}
	f, err := planner.NewFluid(config, s.Workload)
	if err != nil {
		return nil, err
	}
	var limits []FluidLimit
	for _, w := range work {
		spec, err := workloads.Parse(w.Name)
		if err != nil {
			return nil, err
		}
		rates, err := trueRates(ctx, w, seeds)
		if err != nil {
			return nil, err
		}
		if spec.Perturbation != (workloads.Perturbation{}) || slices.Contains(rates, 0) {
			continue
		}
		utility, err := f.Over(rates)
		if err != nil {
			return nil, fmt.Errorf("workload %q: %w", w.Name, err)
		}
		limits = append(limits, FluidLimit{w.Name, utility, slices.Min(rates) == slices.Max(rates)})
	}
	return append(limits, groups(limits, work)...), nil
}

// groups returns the mean of each group over those of its workloads that have a limit: of a
// sweep all or none.
func groups(limits []FluidLimit, work []evaluation.Workload) []FluidLimit {
	var means []FluidLimit
	members := map[string][]float64{}
	for _, w := range work {
		i := slices.IndexFunc(limits, func(l FluidLimit) bool { return l.Workload == w.Name })
		if w.Group == "" || i < 0 {
			continue
		}
		if members[w.Group] == nil {
			means = append(means, FluidLimit{Workload: w.Group, Steady: true})
		}
		members[w.Group] = append(members[w.Group], limits[i].Utility)
	}
	for i := range means {
		means[i].Utility = average(members[means[i].Workload])
	}
	return means
}

// trueRates returns the rate at which each request of all seeds came.
func trueRates(ctx context.Context, w evaluation.Workload, seeds []uint64) ([]float64, error) {
	var rates []float64
	for _, seed := range seeds {
		stream, err := w.Open(seed)
		if err != nil {
			return nil, err
		}
		for a, ok := stream.Next(); ok && ctx.Err() == nil; a, ok = stream.Next() {
			rates = append(rates, a.Rate)
		}
	}
	return rates, ctx.Err()
}

// average returns the mean of the values.
func average(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}
