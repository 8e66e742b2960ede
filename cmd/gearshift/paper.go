//go:build !serveonly

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/paper"
)

func newPaperCommand() *cobra.Command {
	var o paper.Options
	c := &cobra.Command{
		Use:   "paper",
		Short: "Repeat the paper's whole evaluation, and more, as one report",
		Long: `Train the policies of "Learned Best-Effort LLM Serving" (arXiv 2401.07886), tune the
rules that they must beat, evaluate all of them as the paper does and beyond, and
write one page: DIR/report.html, with report.json, a CSV for each table and figure,
and surface.csv for the notebooks.

The policies stay in DIR/policies.db. Running it again uses those that are there, and
continues an interrupted training.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			stderr := c.ErrOrStderr()
			return paper.Write(c.Context(), o, paper.Program{
				Version: version,
				Train: func(ctx context.Context, t paper.Training) (string, error) {
					return trainForPaper(ctx, t, stderr)
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
	return c
}

// trainForPaper trains a policy of the report, unless its store has one of the same
// ingredients; an interrupted run goes on.
func trainForPaper(ctx context.Context, t paper.Training, stderr io.Writer) (ref string, err error) {
	r, err := newTrainingRunOn(trainOptions{
		scenario: t.Scenario, store: t.Store, presetName: t.Preset, name: t.Name, from: t.From, seed: t.Seed, uncompared: t.Uncompared,
	}, t.On)
	if err != nil {
		return "", err
	}
	if _, entry, err := r.store.Get(checkpoints.Ref{Name: t.Name}); err == nil && sameTraining(entry.Meta, r.meta) {
		return entry.Ref().String(), nil
	}
	r.options.resume = r.interrupted()
	fmt.Fprintf(stderr, "training %s (preset %s, seed %d)\n", t.Name, t.Preset, t.Seed)
	return t.Name, r.run(ctx, io.Discard, stderr)
}

// interrupted says whether a run of the name, of the same ingredients, waits to
// be continued.
func (r *trainingRun) interrupted() bool {
	stored, err := r.store.GetTraining(r.options.name)
	if err != nil || stored.Policy.Name != "" {
		return false
	}
	var meta checkpoints.Meta
	return json.Unmarshal(stored.Meta, &meta) == nil && r.matches(meta) == nil
}

// sameTraining says whether the stored policy is what the training would end with.
func sameTraining(a, b checkpoints.Meta) bool {
	if a.AdviceMargin > 0 && a.OwnEpisodes && a.Caution == 0 {
		return false // of an earlier version, of which several networks knew no caution
	}
	return a.Scenario == b.Scenario && a.ScenarioHash == b.ScenarioHash && a.SpecHash == b.SpecHash &&
		a.Preset == b.Preset && string(a.Config) == string(b.Config) && a.Seed == b.Seed && a.OwnEpisodes == b.OwnEpisodes && cmp.Compare(a.From, b.From) == 0
}
