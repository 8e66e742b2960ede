//go:build !serveonly

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/paper"
	"gearshift/cmd/gearshift/training"
)

func newPaperCommand() *cobra.Command {
	var o paper.Options
	c := &cobra.Command{
		Use:   "paper",
		Short: "Repeat the paper's whole evaluation, and more, as one report",
		Long: `Train the policies of "Learned Best-Effort LLM Serving" (arXiv 2401.07886), tune the
rules that they must beat, evaluate all of them as the paper does and beyond, and
write one page: DIR/report.html, with report.json, a CSV for each table and figure,
surface.csv for the notebooks, and the points and the picture of utility against time
near the peak: frontier.json and frontier.svg.

With --only frontier it makes that part alone, on any scenario of two sizes or more, and
prints it as a Markdown table. --trained gives it a policy that is in --store already;
--points draws it again from the frontier.json of an earlier report.

The policies stay in DIR/policies.db. Running it again uses those that are there, and
continues an interrupted training.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			stderr := c.ErrOrStderr()
			if err := refuseIdle(c.Flags(), o); err != nil {
				return err
			}
			return paper.Write(c.Context(), o, paper.Program{
				Version: version,
				Train: func(ctx context.Context, t paper.Training) (string, error) {
					return training.Ensure(ctx, training.Options{
						Scenario: t.Scenario, Store: t.Store, Preset: t.Preset, Name: t.Name, From: t.From, Seed: t.Seed, Uncompared: t.Uncompared,
					}, t.On, stderr)
				},
				Counting: func(what string) func(done, total int) { return output.Counting(stderr, what) },
			}, c.OutOrStdout(), stderr)
		},
	}
	f := c.Flags()
	scenarioFlag(c, &o.Scenario)
	f.StringVar(&o.Out, "out", "", "`folder` for the report (required)")
	f.BoolVar(&o.Quick, "quick", false, "the quick preset, few seeds and coarse references: minutes, not hours")
	f.StringVar(&o.Preset, "preset", "", "training preset (default: default, or quick with --quick)")
	f.IntVar(&o.Seeds, "seeds", 0, "evaluation runs of each policy on each workload (default 20, or 3 with --quick)")
	f.IntVar(&o.TrainingSeeds, "training-seeds", 0, "policies trained from different seeds (default 5, or 1 with --quick)")
	f.IntVar(&o.Longer, "longer", 0, "also train that many times as long (default 4, or 1, not at all, with --quick)")
	f.BoolVar(&o.Ablations, "ablations", false, "also train the quick preset with each of its ingredients changed, three times each")
	f.StringVar(&o.Only, "only", "", "the one `section` to make: "+paper.OnlyFrontier+", utility against time near the peak")
	f.StringArrayVar(&o.Trained, "trained", nil, "`OBJECTIVE=REF` of a policy in --store that the frontier uses in place of training one, repeatable; an objective is "+strings.Join(paper.FrontierObjectives(), ", "))
	f.StringVar(&o.Points, "points", "", "`file` frontier.json of an earlier report: draw it, and play nothing")
	storeFlag(c, &o.Store)
	return c
}

// refuseIdle refuses flags that would change nothing.
func refuseIdle(f *pflag.FlagSet, o paper.Options) error {
	var idle error
	if o.Points != "" {
		idle = refuseFlags(f, "with --points, which plays nothing", "scenario", "quick", "preset", "seeds", "trained")
	}
	if o.Points != "" || o.Only != "" {
		idle = errors.Join(idle, refuseFlags(f, "for the frontier alone", "training-seeds", "longer", "ablations"))
	}
	if len(o.Trained) == 0 {
		idle = errors.Join(idle, refuseFlags(f, "without --trained", "store"))
	}
	return idle
}
