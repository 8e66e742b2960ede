package evalcmd

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// tuneOptions are the flags of eval's search for the parameters of rules.
type tuneOptions struct {
	on    bool
	given bool // whether --tune-for is
	policies.Search
}

func tuneFlags(c *cobra.Command, o *tuneOptions) {
	f := c.Flags()
	f.BoolVar(&o.on, "tune", false, "search for the best parameters of each rule first, on training seeds, and evaluate those rules too")
	f.IntVar(&o.Seeds, "tune-seeds", 4, "training runs of each workload that a point of the search takes")
	f.IntVar(&o.Trials, "tune-trials", 150, "points of the search for each rule at most")
	cli.ObjectiveFlag(f, &o.For, "tune-for", "what is best: an `OBJECTIVE`, "+evaluation.ObjectiveForms+" (default: the scenario's training.objective, or utility)")
}

// aim fills in what the flag leaves open: what is best for the scenario.
func (o *tuneOptions) aim(s *scenario.Scenario) {
	if !o.given {
		o.For = s.Training.Objective
	}
}

func (o *tuneOptions) validate() error {
	return errors.Join(cli.CheckSeeds("--tune-seeds", o.Seeds), cli.FaultIf(o.Trials < 1, "--tune-trials %d: at least 1 is needed", o.Trials))
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
