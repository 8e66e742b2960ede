package calibrate

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/scenario"
	"gearshift/internal/training"
	"gearshift/internal/training/policies"
)

// refuses is a program on which every command fails.
func refuses(context.Context, io.Writer, io.Writer, ...string) error { return errors.New("refused") }

// trains is a program that trains, as calibrate asks for it.
func trains(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	var o training.Options
	if args[0] != "train" {
		return fmt.Errorf("no command %q", args[0])
	}
	f := flag.NewFlagSet("train", flag.ContinueOnError)
	for name, to := range map[string]*string{"scenario": &o.Scenario, "store": &o.Store, "name": &o.Name, "preset": &o.Preset} {
		f.StringVar(to, name, "", "")
	}
	f.Uint64Var(&o.Seed, "seed", 0, "")
	f.BoolVar(&o.Resume, "resume", false, "")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	return training.Train(ctx, o, stdout, stderr)
}

// tiny is the text of the built-in scenario.
func tiny(t *testing.T) []byte {
	t.Helper()
	text, err := scenario.Text("tiny")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The turns of a repetition stay together: for the same policies and requests, for no
// others, as a walk may go on with other flags, and not where one is missing.
func TestTurnsOfARepetitionAreTakenTogether(t *testing.T) {
	asked := func() []turn {
		one := turn{Policy: calibrated, Repetition: 3, Workload: "u1", Seed: 1, Time: "2m0s"}
		other := one
		other.Policy = "slackfit"
		return []turn{one, other}
	}
	for what, change := range map[string]func([]turn){
		"nothing":          nil,
		"a missing turn":   func([]turn) {},
		"another policy":   func(t []turn) { t[1].Policy = "static:small" },
		"another workload": func(t []turn) { t[1].Workload = "u2" },
		"another seed":     func(t []turn) { t[1].Seed = 2 },
		"another time":     func(t []turn) { t[1].Time = "10m0s" },
	} {
		var said bytes.Buffer
		c := &calibration{Options: Options{Dir: t.TempDir()}, program: Program{Command: refuses}, stdout: &said, stderr: io.Discard} // with no workload to replay
		turns := asked()
		if change != nil {
			change(turns)
		}
		for i, old := range asked() {
			old.Report = loadgen.ReplayReport{Requests: 7 + i}
			if i == 0 || what != "a missing turn" {
				if err := writeJSON(c.at(turnFile(2, i)), old); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := c.stretch(t.Context(), 2, turns)
		if change == nil {
			if err != nil || turns[0].Report.Requests != 7 || turns[1].Report.Requests != 8 {
				t.Errorf("all taken: %v, %+v", err, turns)
			}
			continue
		}
		left, globErr := filepath.Glob(c.at("turn-*"))
		if err == nil || globErr != nil || len(left) != 0 || !strings.Contains(said.String(), "repetition 3 is not whole: all of its turns are taken again") {
			t.Errorf("%s: %v, left are %v:\n%s", what, err, left, &said)
		}
	}
}

// A turn in which the machine was quicker or slower than in most of its repetition is taken
// again, whatever it came to, and as often as was asked. What no volley tells stands.
func TestTurnsAtAnotherSpeedAreTakenAgain(t *testing.T) {
	for what, c := range map[string]struct {
		slow  [][]float64   // of the turns
		then  [][][]float64 // of each turn when it is taken again, in that order
		tries int
		want  []int // the turns taken again, in order
		off   []int // in the end
	}{
		"one speed":         {slow: [][]float64{{1, 1.1}, {1.05, 1}, {0.95, 1}}, tries: 3},
		"slow at its end":   {slow: [][]float64{{1, 1.5}, {1, 1}, {1, 1}}, then: [][][]float64{{{1, 1}}, nil, nil}, tries: 3, want: []int{0}},
		"quick, twice":      {slow: [][]float64{{1.5, 1.5}, {1, 1}, {1.4, 1.5}}, then: [][][]float64{nil, {{1.5, 1}, {1.5, 1.5}}, nil}, tries: 3, want: []int{1, 1}},
		"as often as asked": {slow: [][]float64{{1, 1}, {2, 2}, {1, 1}}, then: [][][]float64{nil, {{2, 2}, {2, 2}}, nil}, tries: 3, want: []int{1, 1}, off: []int{1}},
		"not asked":         {slow: [][]float64{{1, 1}, {2, 2}, {1, 1}}, tries: 1, off: []int{1}},
		"nothing told":      {slow: [][]float64{nil, {0, 0}, nil}, tries: 3},
	} {
		turns := make([]turn, len(c.slow))
		for i := range turns {
			turns[i].Slowness = c.slow[i]
		}
		var again []int
		w := &calibration{Options: Options{ReplayTries: c.tries}, stdout: io.Discard}
		err := w.level(turns, func(i int) error {
			again = append(again, i)
			turns[i].Slowness, c.then[i] = c.then[i][0], c.then[i][1:]
			return nil
		})
		if err != nil || !slices.Equal(again, c.want) || !slices.Equal(uneven(turns), c.off) {
			t.Errorf("%s: %v; taken again %v, want %v; uneven in the end %v, want %v", what, err, again, c.want, uneven(turns), c.off)
		}
	}
}

// Shares of sizes and errors are those of a turn's last try.
func TestAnotherTryLeavesNothingOfTheFirst(t *testing.T) {
	var taken turn
	for _, report := range []string{`{"share": {"small": 1}, "errors": {"timeout": 1}}`, `{"share": {"large": 1}, "errors": {}}`} {
		if err := taken.enter([]byte(report)); err != nil {
			t.Fatal(err)
		}
	}
	if r := taken.Report; len(r.Share) != 1 || r.Share["large"] != 1 || len(r.Errors) != 0 {
		t.Errorf("shares %v and errors %v, want those of the second try", r.Share, r.Errors)
	}
}

// A training goes on where its run has saved, not where a store is: one that was killed
// may have left no more in it than a further network's progress.
func TestCalibrateResumesWhatHasSaved(t *testing.T) {
	var said bytes.Buffer
	c := &calibration{Options: Options{Dir: t.TempDir(), Preset: "quick", Seed: 1}, program: Program{Command: trains}, stdout: &said, stderr: io.Discard}
	if err := os.WriteFile(c.at("scenario.yaml"), tiny(t), 0o644); err != nil {
		t.Fatal(err)
	}
	store := &checkpoints.Store{Path: c.at(storeName)}
	if err := store.PutTraining(calibrated+"+2", nil, []byte("progress")); err != nil {
		t.Fatal(err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, resumes := range []bool{false, true} { // the second time there is what the first has saved
		said.Reset()
		if err := c.train(interrupted); !errors.Is(err, context.Canceled) || strings.Contains(said.String(), "--resume") != resumes {
			t.Errorf("%v; to be resumed: %v\n%s", err, resumes, &said)
		}
	}
}

// What the walk has trained goes with its step. What others keep in the same store, such
// as an alternative, stays.
func TestCalibrateForgetsItsOwnPolicyAlone(t *testing.T) {
	c := &calibration{Options: Options{Dir: t.TempDir()}}
	forget := func() {
		t.Helper()
		if err := c.forget(steps()[slices.Index(Steps(), "train")]); err != nil {
			t.Fatal(err)
		}
	}
	forget() // where there is no store yet
	store := &checkpoints.Store{Path: c.at(storeName)}
	made, _, err := (&checkpoints.Store{Path: enginetest.Store(t, "tiny", "mine")}).Get(checkpoints.Ref{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine", calibrated} {
		if _, _, err := store.Put(name, made, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		for _, run := range []string{name, name + "+2"} {
			if err := store.PutTraining(run, nil, []byte("progress")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // the second time there is nothing to forget
		forget()
		if list, err := store.List(); err != nil || len(list) != 1 || list[0].Name != "mine" {
			t.Errorf("%v, %+v: want mine alone", err, list)
		}
		for run, stays := range map[string]bool{"mine": true, "mine+2": true, calibrated: false, calibrated + "+2": false} {
			if _, err := store.GetTraining(run); stays && err != nil || !stays && !errors.Is(err, checkpoints.ErrNotFound) {
				t.Errorf("progress of %s: %v, to stay: %v", run, err, stays)
			}
		}
	}
}

// Where the replay is repeated no turn of before stays, whatever number of repetitions
// took it: the policies have one name, and may be others.
func TestCalibrateForgetsEveryTurn(t *testing.T) {
	c := &calibration{Options: Options{Dir: t.TempDir(), Policies: []string{"slackfit"}, Repetitions: 1}}
	for _, name := range []string{"turn-1-1.json", "turn-1-2.json", "turn-1-3.json", "turn-2-1.json", "replay.json", "eval.json"} {
		if err := os.WriteFile(c.at(name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.forget(steps()[slices.Index(Steps(), "replay")]); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(c.at("*")); err != nil || !slices.Equal(left, []string{c.at("eval.json")}) {
		t.Errorf("left are %v, %v", left, err)
	}
}

// Stretches weigh by their requests, and what they differ by tells how sure the mean is.
func TestAheadByStretches(t *testing.T) {
	of := func(utility ...float64) (list []*loadgen.ReplayReport) {
		for k, u := range utility {
			list = append(list, &loadgen.ReplayReport{Requests: []int{100, 300}[k], Utility: u})
		}
		return list
	}
	mean, within := ahead(of(0.9, 0.8), of(0.7, 0.8))
	if math.Abs(mean-0.05) > 1e-9 || math.Abs(within-0.075) > 1e-9 {
		t.Errorf("ahead by %v ± %v", mean, within)
	}
	if mean, within = ahead(of(0.9, 0.8), of(0.8, 0.7)); math.Abs(mean-0.1) > 1e-9 || within > 1e-9 {
		t.Errorf("ahead by %v ± %v everywhere", mean, within)
	}
}

// The end of a walk holds the policy against the alternative that earned most.
func TestTheEndOfACalibration(t *testing.T) {
	names := []string{calibrated, "static:small", "slackfit:0.9"}
	turnsOf := func(utility ...[]float64) (turns []turn) {
		for k, stretch := range utility {
			for i, u := range stretch {
				turns = append(turns, turn{Policy: names[i], Repetition: k + 1, Report: loadgen.ReplayReport{Requests: 100, Utility: u}})
			}
		}
		return turns
	}
	rule := evaluation.Verdict{Policy: "calibrated@1", Rule: "slackfit:0.9", Seeds: 10, Workloads: []string{"u1"}, Margin: evaluation.Interval{Mean: 0.01, Lo: 0.005, Hi: 0.015}}
	level := rule
	level.Margin.Lo = -0.005
	c := &calibration{Options: Options{Scenario: "mine.yaml", Dir: "walk", Repetitions: 1}}
	for _, x := range []struct {
		turns          []turn
		simulated      evaluation.Verdict
		line, verdicts string
	}{
		{
			turnsOf([]float64{0.9, 0.7, 0.85}), rule,
			"calibrated over the best alternative, slackfit:0.9, by +0.0500 in one repetition: not settled",
			"better in the simulator, not settled on the engines; settle it before you promote: gearshift calibrate --scenario mine.yaml --dir walk --from replay --repetitions 3\nto promote it all the same: gearshift policy promote calibrated@1 --store s.db\n",
		},
		{
			turnsOf([]float64{0.9, 0.7, 0.85}, []float64{0.8, 0.6, 0.75}, []float64{0.8, 0.6, 0.75}), rule,
			"calibrated over the best alternative, slackfit:0.9, by +0.0500 (+0.0500 to +0.0500), paired over 3 repetitions: better",
			"better in the simulator, better on the engines; promote it: gearshift policy promote calibrated@1 --store s.db\n",
		},
		{ // what two repetitions differ by says little of a third
			turnsOf([]float64{0.9, 0.7, 0.86}, []float64{0.8, 0.6, 0.74}), rule,
			"calibrated over the best alternative, slackfit:0.9, by +0.0500 (-0.0771 to +0.1771), paired over 2 repetitions: not settled",
			"better in the simulator, not settled on the engines; settle it before you promote: gearshift calibrate --scenario mine.yaml --dir walk --from replay --repetitions 3\nto promote it all the same: gearshift policy promote calibrated@1 --store s.db\n",
		},
		{
			turnsOf([]float64{0.8, 0.9, 0.7}, []float64{0.7, 0.8, 0.6}), rule,
			"calibrated over the best alternative, static:small, by -0.1000 (-0.1000 to -0.1000), paired over 2 repetitions: worse",
			"better in the simulator, worse on the engines; promote the alternative: gearshift policy promote static:small --store s.db\n",
		},
		{
			turnsOf([]float64{0.9, 0.7, 0.85}), level,
			"calibrated over the best alternative, slackfit:0.9, by +0.0500 in one repetition: not settled",
			"level in the simulator, not settled on the engines; promote the rule: gearshift policy promote slackfit:0.9 --store s.db\n",
		},
	} {
		engines := onEngines(names, x.turns)
		if got := engines.String(); got != x.line {
			t.Errorf("%s\nwant %s", got, x.line)
		}
		if got := c.verdict(x.simulated, engines, policies.PromotionIn("s.db")); got != x.verdicts {
			t.Errorf("%s\nwant %s", got, x.verdicts)
		}
	}
}

// What is measured by turns replaces what was measured before, in the scenario that all steps
// after it use.
func TestTheProfilesOfTurnsReplaceThoseBefore(t *testing.T) {
	for turns, want := range map[int]string{0: "27.433", 3: "5.4321"} {
		c := &calibration{Options: Options{Dir: t.TempDir(), Turns: turns}, scenario: load(t, "tiny")}
		put := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(c.at(name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		profile := func(variant, weights string) string {
			return "profiles:\n  - {variant: " + variant + ", launch_floor_ms: 0, weights_ms: " + weights + ", growth_per_sequence: 0.003, token_ms: 0.02, context_token_ms: 0.001, overhead_ms: 1, sequence_ms: 0.1, contention: 0.5}\n"
		}
		put("input.yaml", string(tiny(t)))
		put("profile-small.yaml", profile("small", "27.433"))
		put("profile-large.yaml", profile("large", "27.433"))
		if err := c.joinProfiles(t.Context()); err != nil {
			t.Fatal(err)
		}
		put("profile-large.yaml", profile("large", "5.4321")) // as validate does at its end
		if err := c.keepValidation(t.Context(), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		measured, err := scenario.Load(c.at("measured.yaml"))
		if err != nil || fmt.Sprint(measured.Models[1].Weights) != want {
			t.Errorf("--turns %d: %v; large reads its weights in %v ms, want %s", turns, err, measured.Models[1].Weights, want)
		}
		if !c.finished(steps()[slices.Index(Steps(), "validate")]) {
			t.Errorf("--turns %d: the step is not finished", turns)
		}
	}
}

// Engines are asked while a step that needs them is left to do.
func TestEnginesAreAskedWhileAStepNeedsThem(t *testing.T) {
	s := load(t, "tiny")
	s.Serving.Backend = scenario.Upstream
	c := &calibration{Options: Options{Dir: t.TempDir(), Policies: []string{"slackfit"}, Repetitions: 1}, scenario: s}
	for _, s := range steps() {
		if !c.asksEngines() {
			t.Errorf("the engines are not asked before %s", s.name)
		}
		for _, name := range s.outputs(c) {
			if err := os.WriteFile(c.at(name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c.asksEngines() {
		t.Error("the engines are asked where all is done")
	}
}

// A step that is finished says with which flags, where those given now are others.
func TestAFinishedStepNamesItsFlags(t *testing.T) {
	c := &calibration{scenario: load(t, "tiny"), Options: Options{Dir: t.TempDir(), Measure: 15 * time.Second, Batches: []int{1, 4}, Prompts: []int{16, 64}}}
	for _, o := range []struct {
		measure time.Duration
		batches []int
		want    string
	}{
		{time.Minute, []int{1, 4}, "finished already; --from measure repeats it"}, // before flags were recorded
		{15 * time.Second, []int{1, 4}, "finished already; --from measure repeats it"},
		{time.Minute, []int{1, 4}, "finished already, with --measure-time 15s; --from measure repeats it with --measure-time 1m0s"},
		{time.Minute, []int{1, 2}, "finished already, with --measure-time 15s --batches 1,4; --from measure repeats it with --measure-time 1m0s --batches 1,2"},
	} {
		c.Measure, c.Batches = o.measure, o.batches
		if got := c.skipped("measure"); got != o.want {
			t.Errorf("%q, want %q", got, o.want)
		}
		c.Measure, c.Batches = 15*time.Second, []int{1, 4}
		if err := c.record("measure"); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range steps() {
		if seen := c.flagsOf(s.name); len(seen) == 0 && s.name != "scenario" {
			t.Errorf("%s has no flags", s.name)
		}
	}
}

// A step is not repeated before those that it rests on are finished, and nothing is made.
func TestFromNeedsTheStepsBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	o := Options{Scenario: "tiny", Dir: dir, From: "replay", Preset: "quick", Workload: "u1"}
	err := Run(t.Context(), o, Program{Command: refuses}, io.Discard, io.Discard)
	want := "--from replay: measure, which comes before it, is not finished in " + dir + "; leave --from out to go on there"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is there")
	}
}
