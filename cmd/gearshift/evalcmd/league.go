package evalcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/league"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/output"
	"gearshift/internal/training/policies"
)

// leagueOptions are the flags of league.
type leagueOptions struct {
	league.Settings
	fleets, store string
	out           string
	json          bool
	train         league.Training
}

// NewLeagueCommand returns the command that compares rules and policies on drawn fleets. Train is nil in a build
// that trains nothing.
func NewLeagueCommand(train league.Trainer) *cobra.Command {
	o := leagueOptions{Settings: league.Usual(), fleets: "1-20"}
	c := &cobra.Command{
		Use:   "league",
		Short: "Compare rules and policies on fleets drawn at random",
		Long: `Draw the fleets of the seeds, as gearshift scenario draw does, and on each of them tune every
family of rules with the same budget of simulated decisions, about a minute of one core in all.
Then play on evaluation seeds, which the search has not seen:

  tuned    the best rule of each family, and the one that the search would choose
  plain    each family without parameters
  carried  the evaluation.rules of titan-rtx-opt, tuned there
  fixed    each size alone, with all the memory
  --policy what else is named, which must route on any fleet
  --train  a policy that is trained on the fleet, with the advice of the rule that the search would
           choose, or with --no-advice; it is kept in policies.db of --out

Differences are to the best tuned rule, paired by seed, as shares of its utility. A policy wins a
fleet where the 95 % interval lies above zero, and loses it where it lies below.

With --out, each fleet's results are kept, and the same command goes on after an interruption.
Fleets of seeds from ` + strconv.Itoa(league.FirstTraining) + ` on are for training, and refused here.

Policies:   ` + policies.Forms,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, train) },
	}
	f := c.Flags()
	f.StringVar(&o.fleets, "seeds", o.fleets, "of the fleets: `N`, a range N-M, or several with commas")
	f.StringArrayVar(&o.Policies, "policy", nil, "`REF` of a policy that competes with the rules, repeatable")
	f.StringArrayVar(&o.Workloads, "workload", o.Workloads, "`W`, repeatable")
	f.IntVar(&o.Runs, "eval-seeds", o.Runs, "evaluation runs of each policy on each workload")
	f.IntVar(&o.Requests, "requests", o.Requests, "in an evaluation run (the sweep takes ten times as many at most)")
	f.IntVar(&o.Rates, "rates", o.Rates, "of the sweep, spread over evaluation.stable_rates")
	f.IntVar(&o.Tuning.Trials, "trials", o.Tuning.Trials, "points of the search for each family at most")
	f.StringVar(&o.train.Preset, "train", "", "`PRESET` of a policy to train on each fleet")
	f.BoolVar(&o.train.NoAdvice, "no-advice", false, "with --train: no rule advises the policy")
	f.Uint64Var(&o.train.Seed, "train-seed", 1, "with --train: of the training")
	f.StringVar(&o.out, "out", "", "`folder` that keeps the results of each fleet, and league.json")
	f.BoolVar(&o.json, "json", false, "print JSON instead of tables")
	cli.StoreFlag(c, &o.store)
	return c
}

func (o *leagueOptions) run(c *cobra.Command, train league.Trainer) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := o.trains(c, train); err != nil {
		return err
	}
	stderr := c.ErrOrStderr()
	l := league.League{
		Settings: o.Settings, Trainer: train, Out: o.out, Notice: cli.NoticeOn(stderr),
		Counting: func(what string) func(done, total int) { return output.Counting(stderr, what) },
	}
	var err error
	if l.Seeds, err = seedsOf(o.fleets); err != nil {
		return err
	}
	if l.Source, err = onnxruntime.Source(o.store, onnxruntime.Native); err != nil {
		return err
	}
	if err := l.Check(); err != nil {
		return fmt.Errorf("--seeds %s: %w", o.fleets, err)
	}
	if err := makeReports(o.out); err != nil {
		return err
	}
	report, err := l.Play(c.Context())
	if len(report.Fleets) == 0 {
		return err
	}
	report.Sum()
	if o.out != "" {
		err = errors.Join(err, writeLeague(filepath.Join(o.out, "league.json"), report))
	}
	if o.json {
		return errors.Join(output.JSON(c.OutOrStdout(), report), err)
	}
	return errors.Join(report.WriteTable(c.OutOrStdout()), err)
}

// trains sets the policy to train, and refuses flags that need --train.
func (o *leagueOptions) trains(c *cobra.Command, train league.Trainer) error {
	switch {
	case o.train.Preset == "":
		return cli.RefuseFlags(c.Flags(), "without --train", "no-advice", "train-seed")
	case train == nil:
		return errors.New("--train: the training stack is not in this build (serveonly)")
	case o.out == "":
		return errors.New("--train: want --out, a folder that keeps the policies")
	}
	o.Train = &o.train
	return nil
}

func (o *leagueOptions) validate() error {
	return errors.Join(
		cli.CheckSeeds("--eval-seeds", o.Runs),
		cli.FaultIf(o.Requests < 1, "--requests %d: at least 1 is needed", o.Requests),
		cli.FaultIf(o.Rates < 1, "--rates %d: at least 1 is needed", o.Rates),
		cli.FaultIf(o.Tuning.Trials < 1, "--trials %d: at least 1 is needed", o.Tuning.Trials))
}

// writeLeague writes the report for programs.
func writeLeague(path string, r *league.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("cannot write the league's results: %w", err)
	}
	return errors.Join(output.JSON(f, r), f.Close())
}

// mostFleets bounds a range of seeds.
const mostFleets = 10_000

// seedsOf reads seeds as --seeds has them, such as 1-20 or 3,5,7-9.
func seedsOf(text string) (seeds []uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 32)
		to, err2 := strconv.ParseUint(high, 10, 32)
		if err != nil || err2 != nil || to < from {
			return nil, fmt.Errorf("--seeds %q: want numbers and ranges of them, such as 1-20 or 3,7-9", text)
		}
		if to-from >= mostFleets || len(seeds) >= mostFleets {
			return nil, fmt.Errorf("--seeds %q: at most %d fleets are possible", text, mostFleets)
		}
		for seed := from; seed <= to; seed++ {
			seeds = append(seeds, seed)
		}
	}
	return seeds, nil
}
