//go:build !serveonly

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/reports/mosel"
	"gearshift/internal/training"
	"gearshift/internal/training/policies"
	"gearshift/rl"
)

// modalityTraining holds what `gearshift modality train` is given.
type modalityTraining struct {
	training.JobsOptions
	named     []string
	file      string
	path      string // of the store
	name      string
	available []training.JobsModel
}

// newModalityTrain returns the command, which knows those models by name.
func newModalityTrain(available []training.JobsModel) *cobra.Command {
	o := modalityTraining{available: available}
	var names []string
	for _, m := range available {
		names = append(names, m.Name)
	}
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a policy that decides which inputs jobs use, and store it",
		Long: `Trains a Double-DQN policy on a simulated worker, under Poisson loads, loads that switch
between two rates (MMPP) and days with spikes. The policy decides about the job that the
exact plan would run next: it takes the plan's strategy, a faster or a better one, or drops
the job. It departs from the plan only where that is worth a margin, which is chosen on
validation seeds. A request is worth its quality if it is answered in time, and -1 if it is
late or dropped.

The options of --in are those of gearshift modality plan: {"options": [...], "jobs": []}.`,
		Example: "  gearshift modality train --models TVLT,ViLT --name inputs\n  gearshift modality train --in queue.json --name inputs",
		Args:    cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.named, "models", nil, "`names` of the models of the paper to train on, from "+strings.Join(names, ", ")+" (default: all)")
	f.StringVar(&o.file, "in", "", "`file` with the options of your model as JSON, in place of --models")
	f.StringVar(&o.name, "name", "modality", "of the policy in the store")
	f.Uint64Var(&o.Seed, "seed", 1, "of everything random in the run")
	f.IntVar(&o.Decisions, "decisions", training.UsualJobs, "decisions that the policy learns from")
	cli.StoreFlag(c, &o.path)
	return c
}

func (o *modalityTraining) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := policies.CheckName(o.name); err != nil {
		return err
	}
	if err := o.models(); err != nil {
		return err
	}
	store := &checkpoints.Store{Path: o.path}
	if err := store.Writable(); err != nil {
		return err
	}
	count := output.Counting(stderr, "decisions")
	o.Report = func(r rl.Report) { count(r.Decisions, r.Total) }
	t, err := training.TrainJobs(ctx, o.JobsOptions)
	if err != nil {
		return err
	}
	ref, err := t.Store(store, o.name, o.JobsOptions, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "stored policy %s in %s after %d decisions\n", ref, o.path, o.Decisions)
	fmt.Fprintf(stdout, "a request is worth %.4f on validation seeds, under the plan alone %.4f\n", t.Score, t.Plan)
	return nil
}

// models finds the models to train on.
func (o *modalityTraining) models() error {
	switch {
	case o.file != "" && len(o.named) > 0:
		return fmt.Errorf("--in and --models exclude each other")
	case o.file != "":
		options, err := readOptions(o.file)
		o.Models = []training.JobsModel{{Name: o.name, Options: options}}
		return err
	case len(o.named) == 0:
		o.Models = o.available
		return nil
	}
	for _, name := range o.named {
		i := slices.IndexFunc(o.available, func(m training.JobsModel) bool { return strings.EqualFold(m.Name, name) })
		if i < 0 {
			var names []string
			for _, m := range o.available {
				names = append(names, m.Name)
			}
			return fmt.Errorf("--models: there is no %q; want some of %s", name, strings.Join(names, ", "))
		}
		o.Models = append(o.Models, o.available[i])
	}
	return nil
}

// modalityCommands returns the group `gearshift modality`, with the command that trains.
func modalityCommands() *cobra.Command {
	c := newModalityCommand()
	c.AddCommand(newModalityTrain(mosel.Trained()))
	return c
}
