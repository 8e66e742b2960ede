//go:build !serveonly

package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// calibrateOptions are the flags of calibrate.
type calibrateOptions struct {
	scenario, dir, from, preset, workload string
	policies                              []string
	measure, replay, validate             time.Duration
	batches, prompts                      []int
	seeds, requests, repetitions, trials  int
	tries, replayTries, turns             int
	seed                                  uint64
}

// Program is what calibrate needs of the program that it belongs to.
type Program struct {
	Version string
	// Root makes the command line of the whole program: calibrate runs other commands.
	Root func() *cobra.Command
	// Remedy is as [app.Options] has it.
	Remedy func(scenario, name, store string) (key, commands string)
}

// NewCalibrateCommand returns the command that goes the whole way from engines to a policy.
func NewCalibrateCommand(p Program) *cobra.Command {
	var o calibrateOptions
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

Steps: ` + strings.Join(stepNames(), ", ") + `.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			return calibrate(c.Context(), o, p, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.scenario, "scenario", "", "built-in `name or file` of the scenario, with the engines that it serves (required)")
	f.StringVar(&o.dir, "dir", "", "`DIR` for the output of each step (required)")
	f.StringVar(&o.from, "from", "", "repeat `STEP` and those after it")
	f.DurationVar(&o.measure, "measure-time", time.Minute, "for which each variant is measured")
	f.IntSliceVar(&o.batches, "batches", []int{1, 2, 4, 8, 16}, "numbers of requests at once, to measure")
	f.IntSliceVar(&o.prompts, "prompts", []int{16, 64, 128, 256, 512}, "prompt lengths in tokens, to measure")
	f.StringVar(&o.preset, "preset", "default", "training preset of the scenario")
	f.StringVar(&o.workload, "workload", "u1", "`W` to evaluate and to replay")
	f.IntVar(&o.seeds, "seeds", 10, "runs of each policy in the evaluation")
	f.IntVar(&o.requests, "requests", 0, "requests in a run of the evaluation (default: the scenario's)")
	f.StringArrayVar(&o.policies, "policy", nil, "`REF` of an alternative, repeatable (default: every static, and the rules that were tuned)")
	f.IntVar(&o.trials, "tune-trials", 60, "points of the search for each rule; 0 leaves the scenario's rules as they are")
	f.DurationVar(&o.replay, "replay-time", 2*time.Minute, "for which the workload is replayed with each policy")
	f.IntVar(&o.repetitions, "repetitions", 1, "number of replays with each policy, each of another stretch of the workload")
	f.DurationVar(&o.validate, "validate-time", 20*time.Second, "for which each load of the validation is sent")
	f.IntVar(&o.turns, "turns", 0, "number of times to measure again and validate, instead of once; what all of them measure replaces the profiles before it")
	f.IntVar(&o.tries, "validate-tries", 3, "most attempts at a load of the validation, while the host of this virtual machine gives much of its processors to others")
	f.IntVar(&o.replayTries, "replay-tries", 1, "most attempts at a replay, while the machine is at another speed than in the others of its repetition; above 1, short loads before and after each measure that")
	f.Uint64Var(&o.seed, "seed", 1, "of the training and of the replayed workload")
	return c
}

// calibration is a walk under way.
type calibration struct {
	calibrateOptions
	program  Program
	scenario *scenario.Scenario
	stdout   io.Writer
	stderr   io.Writer
}

// step is one step of the walk. It is finished when its outputs are there.
type step struct {
	name    string
	outputs func(*calibration) []string // files in the folder, the last one of which is written last
	run     func(*calibration, context.Context) error
}

func file(names ...string) func(*calibration) []string {
	return func(*calibration) []string { return names }
}

// steps returns the walk, in order.
func steps() []step {
	return []step{
		{"measure", (*calibration).profileFiles, (*calibration).measureAll},
		{"scenario", file("measured.yaml"), (*calibration).joinProfiles},
		{"validate", file("validate.json"), (*calibration).validateEngines},
		{"tune", file("scenario.yaml"), (*calibration).tuneRules},
		{"train", file("train.txt"), (*calibration).train},
		{"evaluate", file("eval.csv", "eval.json"), (*calibration).evaluate},
		{"replay", (*calibration).turnFiles, (*calibration).replayAll},
		{"validate-policy", file("validate-policy.json"), (*calibration).validatePolicy},
	}
}

func stepNames() []string {
	var names []string
	for _, s := range steps() {
		names = append(names, s.name)
	}
	return names
}

func (o *calibrateOptions) check() error {
	positive := func(flag string, value time.Duration) error {
		return cli.FaultIf(value <= 0, "--%s %v: want a time above 0", flag, value)
	}
	return cmp.Or(
		cli.FaultIf(o.scenario == "", "--scenario is missing: the scenario with the engines that it serves"),
		cli.FaultIf(o.dir == "", "--dir DIR is missing: the folder for the output of each step"),
		cli.FaultIf(o.from != "" && !slices.Contains(stepNames(), o.from), "--from %q: the steps are %s", o.from, strings.Join(stepNames(), ", ")),
		positive("measure-time", o.measure), positive("replay-time", o.replay), positive("validate-time", o.validate),
		cli.CheckSeeds("--seeds", o.seeds),
		cli.FaultIf(o.turns < 0, "--turns %d: want a number, or 0 to validate what was measured at first", o.turns),
		cli.FaultIf(o.repetitions < 1 || o.tries < 1 || o.replayTries < 1 || o.requests < 0 || o.trials < 0,
			"--repetitions %d --validate-tries %d --replay-tries %d --requests %d --tune-trials %d: want at least 1, 1, 1, 0 and 0", o.repetitions, o.tries, o.replayTries, o.requests, o.trials),
	)
}

func calibrate(ctx context.Context, o calibrateOptions, p Program, stdout, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	if _, err := s.Preset(o.preset); err != nil {
		return fmt.Errorf("--preset: %w", err)
	}
	c := &calibration{calibrateOptions: o, program: p, scenario: s, stdout: stdout, stderr: stderr}
	if err := errors.Join(c.measurable(), c.playable()); err != nil {
		return err
	}
	if err := c.equipped(ctx); err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	if err := (&checkpoints.Store{Path: c.at(storeName)}).Writable(); err != nil {
		return err
	}
	c.announce()
	if err := c.walk(ctx); err != nil {
		return err
	}
	c.conclude()
	return nil
}

// walk takes the steps in order.
func (c *calibration) walk(ctx context.Context) error {
	all := steps()
	for i, s := range all {
		if s.name == c.from {
			if err := c.forget(s); err != nil {
				return err
			}
		}
		if c.finished(s) {
			fmt.Fprintf(c.stdout, "%d %s: finished already; --from %s repeats it\n", i+1, s.name, s.name)
			continue
		}
		fmt.Fprintf(c.stdout, "%d %s\n", i+1, s.name)
		began := time.Now()
		// What comes after a step rests on it. What a walk before has left of the next
		// goes now, not when that is come to: this one may be finished by then, and the
		// walk interrupted.
		if next := i + 1; next < len(all) {
			if err := c.forget(all[next]); err != nil {
				return err
			}
		}
		if err := s.run(c, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "  %d of %d done, in %s\n", i+1, len(all), time.Since(began).Round(time.Second))
	}
	return nil
}

// playable says what is wrong with the workload or an alternative, which are wanted
// after hours.
func (c *calibration) playable() error {
	_, err := workloads.ParseStream(c.workload)
	if err == nil {
		_, err = c.scenario.Evaluated([]string{c.workload}, c.requests)
	}
	if err != nil {
		return fmt.Errorf("--workload %s: %w", c.workload, err)
	}
	maker, err := c.scenario.Maker(c.scenario.Table())
	if err != nil {
		return err
	}
	source := &policies.Source{Store: &checkpoints.Store{Path: c.at(storeName)}}
	for _, ref := range c.policies {
		if name, _, _ := strings.Cut(ref, "@"); name == calibrated { // which the walk makes
			continue
		}
		switch {
		case policies.IsClairvoyant(ref):
			err = fmt.Errorf("policy %q: a clairvoyant cannot be served; want %s", ref, policies.Forms)
		case policy.IsRule(ref):
			_, err = maker.Parse(ref)
		default:
			if rule, ok := source.Rule(ref); ok {
				_, err = maker.Parse(rule)
				break
			}
			_, _, err = source.Stored(ref, maker)
		}
		if err != nil {
			return fmt.Errorf("--policy %s: %w", ref, err)
		}
	}
	return nil
}

// begin makes the folder, and refuses one that belongs to another scenario.
func (c *calibration) begin() error {
	text, err := scenario.Text(c.calibrateOptions.scenario)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("cannot make --dir: %w", err)
	}
	path := c.at("input.yaml")
	switch old, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
		return output.Install(path, text, false)
	case err != nil:
		return fmt.Errorf("cannot read --dir: %w", err)
	case string(old) != string(text) && c.from != "measure" && c.from != "scenario":
		return fmt.Errorf("--dir %s was begun with another scenario (see %s); take another folder, or --from measure, or --from scenario if the engines are the same, to keep their profiles", c.dir, path)
	}
	return output.Install(path, text, true)
}

func (c *calibration) at(name string) string { return filepath.Join(c.dir, name) }

func (c *calibration) finished(s step) bool {
	for _, name := range s.outputs(c) {
		if _, err := os.Stat(c.at(name)); err != nil {
			return false
		}
	}
	return true
}

// forget removes a step's outputs, and nothing else.
func (c *calibration) forget(s step) error {
	fault := func(err error) error { return fmt.Errorf("cannot repeat %s: %w", s.name, err) }
	names := s.outputs(c)
	if s.name == "replay" {
		// Those that other flags took too: nothing distinguishes a turn that an earlier training
		// took from one of the next.
		taken, err := os.ReadDir(c.dir)
		if err != nil {
			return fault(err)
		}
		for _, e := range taken {
			if isTurn, _ := filepath.Match("turn-*-*.json", e.Name()); isTurn {
				names = append(names, e.Name())
			}
		}
	}
	for _, name := range names {
		if err := c.remove(name); err != nil {
			return fault(err)
		}
	}
	if s.name == "train" {
		if err := c.forgetPolicy(); err != nil {
			return fault(err)
		}
	}
	return nil
}

// remove removes a file, if it is there.
func (c *calibration) remove(name string) error {
	if err := os.Remove(c.at(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// command runs another command as it would be typed, which is shown.
func (c *calibration) command(ctx context.Context, stdout io.Writer, args ...string) error {
	fmt.Fprintf(c.stdout, "  gearshift %s\n", strings.Join(args, " "))
	root := c.program.Root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(c.stderr)
	return root.ExecuteContext(ctx)
}
