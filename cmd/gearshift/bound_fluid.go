package main

import (
	"context"
	"fmt"
	"slices"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/env/planner"
	"gearshift/workloads"
)

// fluidRow is the fluid bound on a workload, the mean over its requests.
type fluidRow struct {
	Workload string  `json:"workload"`
	Utility  float64 `json:"utility"`
	// Steady says that all requests came at one rate. Else the figure is the mean
	// of the bounds at their rates, as if each lasted: a guide, not a bound.
	Steady bool `json:"steady"`
}

// fluidRows bounds the utility on each workload, by the true rates of the very
// requests that are played. Workloads whose rates nobody knows have no row; nor have
// those that depart from the scenario, which is what the bound is of.
func fluidRows(ctx context.Context, s *scenario.Scenario, work []evaluation.Workload, seeds []uint64) ([]fluidRow, error) {
	config, err := s.Simulation()
	if err != nil {
		return nil, err
	}
	f, err := planner.NewFluid(config, s.Workload)
	if err != nil {
		return nil, err
	}
	var rows []fluidRow
	for _, w := range work {
		spec, err := workloads.Parse(w.Name)
		if err != nil {
			return nil, err
		}
		rates, err := trueRates(ctx, w, seeds)
		if err != nil {
			return nil, err
		}
		if spec.Departure != (workloads.Departure{}) || slices.Contains(rates, 0) {
			continue
		}
		utility, err := f.Over(rates)
		if err != nil {
			return nil, fmt.Errorf("workload %q: %w", w.Name, err)
		}
		rows = append(rows, fluidRow{w.Name, utility, slices.Min(rates) == slices.Max(rates)})
	}
	return append(rows, groupRows(rows, work)...), nil
}

// groupRows is the mean of each group over those of its workloads that have a row: of a
// sweep all or none.
func groupRows(rows []fluidRow, work []evaluation.Workload) []fluidRow {
	var groups []fluidRow
	members := map[string][]float64{}
	for _, w := range work {
		i := slices.IndexFunc(rows, func(r fluidRow) bool { return r.Workload == w.Name })
		if w.Group == "" || i < 0 {
			continue
		}
		if members[w.Group] == nil {
			groups = append(groups, fluidRow{Workload: w.Group, Steady: true})
		}
		members[w.Group] = append(members[w.Group], rows[i].Utility)
	}
	for i := range groups {
		groups[i].Utility = average(members[groups[i].Workload])
	}
	return groups
}

// trueRates is the rate at which each request of all seeds came.
func trueRates(ctx context.Context, w evaluation.Workload, seeds []uint64) ([]float64, error) {
	var rates []float64
	for _, seed := range seeds {
		stream, err := w.Open(seed)
		if err != nil {
			return nil, err
		}
		stream = interruptible{ctx, stream}
		for a, ok := stream.Next(); ok; a, ok = stream.Next() {
			rates = append(rates, a.Rate)
		}
	}
	return rates, ctx.Err()
}

// average is the mean of the values.
func average(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}
