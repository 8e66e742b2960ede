package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// tuneOptions are the flags of eval's search for the parameters of rules.
type tuneOptions struct {
	on            bool
	seeds, trials int
	aim           string
}

// What a search may look for.
const (
	aimUtility = "utility"
	aimWindows = "windows"
)

func tuneFlags(c *cobra.Command, o *tuneOptions) {
	f := c.Flags()
	f.BoolVar(&o.on, "tune", false, "search for the best parameters of each rule first, on training seeds, and evaluate those rules too")
	f.IntVar(&o.seeds, "tune-seeds", 4, "training runs of each workload that a point of the search takes")
	f.IntVar(&o.trials, "tune-trials", 150, "points of the search for each rule at most")
	f.StringVar(&o.aim, "tune-for", aimUtility, "what is best: utility, or windows of 20 requests near peak performance")
}

func (o *tuneOptions) validate() error {
	var faults []error
	if o.seeds < 1 {
		faults = append(faults, fmt.Errorf("--tune-seeds %d: at least 1 is needed", o.seeds))
	}
	if o.trials < 1 {
		faults = append(faults, fmt.Errorf("--tune-trials %d: at least 1 is needed", o.trials))
	}
	if o.aim != aimUtility && o.aim != aimWindows {
		faults = append(faults, fmt.Errorf("--tune-for %q: want %s or %s", o.aim, aimUtility, aimWindows))
	}
	return errors.Join(faults...)
}

// tune searches every family of rules on the training seeds of the workloads.
func tune(ctx context.Context, s *scenario.Scenario, o tuneOptions, work []evaluation.Workload, stderr io.Writer) (*evaluation.TuningReport, error) {
	fleet, err := s.Simulation()
	if err != nil {
		return nil, err
	}
	families, err := ruleFamilies(s, fleet.Table)
	if err != nil {
		return nil, err
	}
	t := evaluation.Tuning{
		Families: families, Fleet: fleet, Workloads: work,
		Seeds: workloads.Seeds(workloads.Training, o.seeds), Trials: o.trials, Windows: o.aim == aimWindows,
		Progress: counting(stderr, "tuning"),
	}
	trials, err := t.Run(ctx)
	if err != nil {
		return nil, err
	}
	return t.Report(trials, "training seeds"), nil
}

// ruleFamilies are the rules whose parameters are searched for.
func ruleFamilies(s *scenario.Scenario, t *fleet.Table) ([]evaluation.Family, error) {
	maker, err := s.Maker(t)
	if err != nil {
		return nil, err
	}
	rules, err := maker.Families()
	if err != nil {
		return nil, err
	}
	families := make([]evaluation.Family, len(rules))
	for i, f := range rules {
		families[i] = evaluation.Family{
			Name: f.Name,
			Make: func(values []float64) (string, evaluation.Decider, error) {
				rule, err := f.Make(values)
				if err != nil {
					return "", nil, err
				}
				return rule.Name(), rule, nil
			},
		}
		for _, axis := range f.Axes {
			families[i].Axes = append(families[i].Axes, evaluation.Axis(axis))
		}
	}
	return families, nil
}

// further lists the best rule of each family that is not among the references.
func further(refs []string, r *evaluation.TuningReport) []string {
	var list []string
	for _, b := range r.Best {
		if !slices.Contains(refs, b.Policy) {
			list = append(list, b.Policy)
		}
	}
	return list
}
