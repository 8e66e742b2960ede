// Package calibrate goes the whole way from engines to a policy: it measures them, makes their profiles, compares the
// simulator with them, tunes rules, trains a policy, evaluates, serves and replays, and says what to promote.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// Options set what is measured, and for how long.
type Options struct {
	Scenario, Dir, From, Preset, Workload string
	Policies                              []string
	Measure, Replay, Validate             time.Duration
	Batches, Prompts                      []int
	Seeds, Requests, Repetitions, Trials  int
	Tries, ReplayTries, Turns             int
	Seed                                  uint64
}

// Program has what calibrate needs of the program that it belongs to.
type Program struct {
	Version string
	// Command runs another command as it would be typed.
	Command func(ctx context.Context, stdout, stderr io.Writer, args ...string) error
	// Remedy is as [app.Options] has it.
	Remedy func(scenario, name, store string) (key, commands string)
}

// calibration is a walk under way.
type calibration struct {
	Options
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

// Steps lists the names of the steps, in order.
func Steps() []string {
	var names []string
	for _, s := range steps() {
		names = append(names, s.name)
	}
	return names
}

// Run goes the whole way, or what is left of it.
func Run(ctx context.Context, o Options, p Program, stdout, stderr io.Writer) error {
	s, err := scenario.Load(o.Scenario)
	if err != nil {
		return err
	}
	if _, err := s.Preset(o.Preset); err != nil {
		return fmt.Errorf("--preset: %w", err)
	}
	c := &calibration{Options: o, program: p, scenario: s, stdout: stdout, stderr: stderr}
	if err := errors.Join(c.measurable(), c.playable(), c.begun()); err != nil {
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
		if s.name == c.From {
			if err := c.forget(s); err != nil {
				return err
			}
		}
		if c.finished(s) {
			fmt.Fprintf(c.stdout, "%d %s: %s\n", i+1, s.name, c.skipped(s.name))
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
		if err := c.record(s.name); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "  %d of %d done, in %s\n", i+1, len(all), time.Since(began).Round(time.Second))
	}
	return nil
}

// playable says what is wrong with the workload or an alternative, which are wanted
// after hours.
func (c *calibration) playable() error {
	_, err := workloads.ParseStream(c.Workload)
	if err == nil {
		_, err = c.scenario.Evaluated([]string{c.Workload}, c.Requests)
	}
	if err != nil {
		return fmt.Errorf("--workload %s: %w", c.Workload, err)
	}
	maker, err := c.scenario.Maker(c.scenario.Table())
	if err != nil {
		return err
	}
	source := &policies.Source{Store: &checkpoints.Store{Path: c.at(storeName)}}
	for _, ref := range c.Policies {
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
	text, err := scenario.Text(c.Options.Scenario)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("cannot make --dir: %w", err)
	}
	path := c.at("input.yaml")
	switch old, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
		return output.Install(path, text, false)
	case err != nil:
		return fmt.Errorf("cannot read --dir: %w", err)
	case string(old) != string(text) && c.From != "measure" && c.From != "scenario":
		return fmt.Errorf("--dir %s was begun with another scenario (see %s); take another folder, or --from measure, or --from scenario if the engines are the same, to keep their profiles", c.Dir, path)
	}
	return output.Install(path, text, true)
}

func (c *calibration) at(name string) string { return filepath.Join(c.Dir, name) }

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
		taken, err := os.ReadDir(c.Dir)
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
	return c.program.Command(ctx, stdout, c.stderr, args...)
}
