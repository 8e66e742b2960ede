//go:build !serveonly

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/cli"
	"gearshift/cmd/gearshift/measure"
	"gearshift/env/evaluation"
	"gearshift/internal/calibrate"
	"gearshift/internal/league"
	"gearshift/internal/scenario"
	"gearshift/internal/training"
)

var trainingStack = training.Stack

func trainCommands() []*cobra.Command {
	return []*cobra.Command{newTrainCommand(), measure.NewCalibrateCommand(calibrate.Program{Version: version, Command: typed, Remedy: remedy}), newPaperCommand()}
}

// trainingExample is the example of the commands that train, among those of all.
const trainingExample = "  gearshift calibrate --scenario mine.yaml --dir walk\n"

// remedy is how a store comes by a policy: a key of the log, and the commands.
func remedy(scenario, name, store string) (key, commands string) {
	return "to_train_one", fmt.Sprintf("gearshift train --scenario %s --store %s && gearshift policy promote %s --store %s", scenario, store, name, store)
}

// leagueTrainer trains a policy on a drawn fleet, and says on standard error how it goes.
var leagueTrainer league.Trainer = func(ctx context.Context, t league.Training, name string, on *scenario.Scenario, store string) (string, error) {
	return training.Ensure(ctx, training.Options{
		Scenario: on.Name, Store: store, Preset: t.Preset, Name: name, Seed: t.Seed, Uncompared: true,
	}, on, os.Stderr)
}

const trainLong = `Train a Double-DQN policy in the simulator of the scenario's fleet and store the
weights that did best on validation seeds. Progress is saved as the run goes: after
an interruption, the same command with --resume continues, and ends with the very
bytes that an uninterrupted run ends with. --restart starts over instead; without
either, a run of a name that has saved progress does not begin.

At the end it compares the policy with the best of the scenario's rules on held-out seeds,
as gearshift policy promote requires.

--objective says what the policy is for: utility is the best mean, near-peak is as few runs
of poor answers as possible, windows:0.98,20 is a promise about 20 requests in a row. See
"What for" in docs/training.md.

With --from-log, the policy that --from names is fine-tuned on requests that a router
has served and logged (serving.experience), and on as many decisions in the simulator,
and stored as a new version of it. The output compares that version with the old one.

With --trace, or --from-log without --from, a policy is trained on recorded arrivals: blocks of
the first part of them, in random order. What is held out, by default the last half, judges it.

With --placement, the policy decides which sizes are loaded (docs/placement.md) instead of which
size answers: of a scenario with serving.placement.`

func newTrainCommand() *cobra.Command {
	var o training.Options
	var by evaluation.Objective
	var placement bool
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a policy in the simulator and store it",
		Long:  trainLong,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("objective") {
				o.Objective = &by
			}
			if placement {
				return trainPlacement(c, &o)
			}
			if err := checkTraffic(c, &o); err != nil {
				return err
			}
			if len(o.FromLog) > 0 && o.From != "" {
				if err := cli.RefuseFlags(c.Flags(), "with --from-log", "resume", "restart", "out"); err != nil {
					return err
				}
				return training.FromLog(c.Context(), o, c.Flags().Changed("preset"), c.OutOrStdout(), c.ErrOrStderr())
			}
			if o.Resume && o.Restart {
				return errors.New("--resume and --restart exclude each other")
			}
			return training.Train(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	cli.ScenarioFlag(c, &o.Scenario)
	cli.StoreFlag(c, &o.Store)
	f.StringVar(&o.Preset, "preset", "default", "training preset of the scenario: quick, default, paper, or your own. With --placement: quick or default")
	cli.ObjectiveFlag(f, &by, "objective", "what to train and judge for, an `OBJECTIVE`: "+evaluation.ObjectiveForms+" (default: the scenario's training.objective, or utility)")
	f.Uint64Var(&o.Seed, "seed", 1, "of everything random in the run")
	f.IntVar(&o.Steps, "steps", 0, "stop after `N` decisions in all; schedules keep to the preset's length (0: the whole preset). With --from-log: gradient steps (0: ten passes over the log). With --placement: episodes")
	f.StringVar(&o.Name, "name", "", "of the policy and the run (default: the scenario's name)")
	f.StringVar(&o.From, "from", "", "stored policy, `NAME[@VERSION]`, to fine-tune: begin with its weights, and explore as little as at a run's end")
	cli.FromLogFlag(c, &o.FromLog, "`FILE…` of logged requests to fine-tune on, with --from; without it, their arrivals are trained on as a trace's")
	trafficFlags(f, &o)
	f.BoolVar(&placement, "placement", false, "train a policy that decides which sizes are loaded")
	f.BoolVar(&o.Resume, "resume", false, "continue the stored run of this name")
	f.BoolVar(&o.Restart, "restart", false, "start over, and replace the stored run of this name")
	f.StringVar(&o.Out, "out", "", "`folder` for progress.csv and a TensorBoard event file")
	return c
}

// trafficFlags adds the flags on recorded requests to train on.
func trafficFlags(f *pflag.FlagSet, o *training.Options) {
	f.StringVar(&o.Trace, "trace", "", "train and judge on a recorded trace, `FILE[@RATE][+zero]`: azure-code, arena or a path (docs/workloads.md)")
	f.Float64Var(&o.HeldOut, "held-out", 0.5, "`share` of the trace or of the log's arrivals, its end, that is for the comparison with the rules alone; whole days where it spans several")
	f.BoolVar(&o.DrawnLengths, "drawn-lengths", false, "draw lengths as the scenario says instead of the trace's token counts, with --trace")
}

// checkTraffic refuses flags on recorded requests that contradict each other.
func checkTraffic(c *cobra.Command, o *training.Options) error {
	f := c.Flags()
	switch {
	case o.Trace != "" && len(o.FromLog) > 0:
		return errors.New("--trace and --from-log exclude each other")
	case o.Trace == "" && f.Changed("drawn-lengths"):
		return errors.New("--drawn-lengths is for --trace")
	case o.Trace == "" && (len(o.FromLog) == 0 || o.From != "") && f.Changed("held-out"):
		return errors.New("--held-out is for --trace, or for --from-log without --from")
	}
	return nil
}

// typed runs another command of the program as it would be typed.
func typed(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}
