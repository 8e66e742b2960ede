//go:build !serveonly

package measure

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/calibrate"
)

// NewCalibrateCommand returns the command that goes the whole way from engines to a policy.
func NewCalibrateCommand(p calibrate.Program) *cobra.Command {
	var o calibrate.Options
	c := &cobra.Command{
		Use:   "calibrate --scenario S --dir DIR",
		Short: "Measure, train, evaluate, serve and replay on your own engines, in one go",
		Long: `Go the whole way on the engines that a scenario serves: measure each variant alone and next to the others,
put the profiles into the scenario, compare the simulator with the engines, tune the rules, train
a policy, evaluate it in the simulator, serve it, replay a workload with it and with the
alternatives in turn, and compare the simulator with that too. Each step leaves its output in DIR.
A step that is finished is skipped, so that the same command continues after an interruption;
--from repeats a step and those after it.

Before the first step the engines are asked for their models, and workload, alternatives, keys
and folder are checked. The end says how the policy did on the engines and in the simulator,
and what to promote.

Steps: ` + strings.Join(calibrate.Steps(), ", ") + `.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkCalibration(&o); err != nil {
				return err
			}
			return calibrate.Run(c.Context(), o, p, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.Scenario, "scenario", "", "built-in `name or file` of the scenario, with the engines that it serves (required)")
	f.StringVar(&o.Dir, "dir", "", "`DIR` for the output of each step (required)")
	f.StringVar(&o.From, "from", "", "repeat `STEP` and those after it")
	f.DurationVar(&o.Measure, "measure-time", time.Minute, "for which each variant is measured; longer, up to 5m or twice the time, until each load was tried once")
	f.IntSliceVar(&o.Batches, "batches", []int{1, 2, 4, 8, 16}, "numbers of requests at once, to measure")
	f.IntSliceVar(&o.Prompts, "prompts", []int{16, 64, 128, 256, 512}, "prompt lengths in tokens, to measure")
	f.StringVar(&o.Preset, "preset", "default", "training preset of the scenario")
	f.StringVar(&o.Workload, "workload", "u1", "`W` to evaluate and to replay")
	f.IntVar(&o.Seeds, "seeds", 10, "runs of each policy in the evaluation")
	f.IntVar(&o.Requests, "requests", 0, "requests in a run of the evaluation (default: the scenario's)")
	f.StringArrayVar(&o.Policies, "policy", nil, "`REF` of an alternative, repeatable (default: every static, and the rules that were tuned)")
	f.IntVar(&o.Trials, "tune-trials", 60, "points of the search for each rule; 0 leaves the scenario's rules as they are")
	f.DurationVar(&o.Replay, "replay-time", 2*time.Minute, "for which the workload is replayed with each policy")
	f.IntVar(&o.Repetitions, "repetitions", 1, "number of replays with each policy, each of another stretch of the workload")
	f.DurationVar(&o.Validate, "validate-time", 20*time.Second, "for which each load of the validation is sent")
	f.IntVar(&o.Turns, "turns", 0, "number of times to measure again and validate, instead of once; what all of them measure replaces the profiles before it")
	f.IntVar(&o.Tries, "validate-tries", 3, "most attempts at a load of the validation, while the host of this virtual machine gives much of its processors to others")
	f.IntVar(&o.ReplayTries, "replay-tries", 1, "most attempts at a replay, while the machine is at another speed than in the others of its repetition; above 1, short loads before and after each measure that")
	f.Uint64Var(&o.Seed, "seed", 1, "of the training and of the replayed workload")
	return c
}

// checkCalibration refuses flags that cannot be.
func checkCalibration(o *calibrate.Options) error {
	positive := func(flag string, value time.Duration) error {
		return cli.FaultIf(value <= 0, "--%s %v: want a time above 0", flag, value)
	}
	return cmp.Or(
		cli.FaultIf(o.Scenario == "", "--scenario is missing: the scenario with the engines that it serves"),
		cli.FaultIf(o.Dir == "", "--dir DIR is missing: the folder for the output of each step"),
		cli.FaultIf(o.From != "" && !slices.Contains(calibrate.Steps(), o.From), "--from %q: the steps are %s", o.From, strings.Join(calibrate.Steps(), ", ")),
		positive("measure-time", o.Measure), positive("replay-time", o.Replay), positive("validate-time", o.Validate),
		cli.CheckSeeds("--seeds", o.Seeds),
		cli.FaultIf(o.Turns < 0, "--turns %d: want a number, or 0 to validate what was measured at first", o.Turns),
		cli.FaultIf(o.Repetitions < 1 || o.Tries < 1 || o.ReplayTries < 1 || o.Requests < 0 || o.Trials < 0,
			"--repetitions %d --validate-tries %d --replay-tries %d --requests %d --tune-trials %d: want at least 1, 1, 1, 0 and 0", o.Repetitions, o.Tries, o.ReplayTries, o.Requests, o.Trials),
	)
}
