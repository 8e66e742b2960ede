package quality

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/quality/labels"
	"gearshift/internal/scenario"
	"gearshift/router/quality"
	"gearshift/workloads/prompts"
)

// topics are words of prompts; the small model fails on those of the second half.
var topics = strings.Fields("weather greeting translation spelling integral topology lemma cohomology")

// set makes labelled prompts of two models, or three. If words tell, the smallest model is
// right on prompts of the first topics alone, and the largest on most.
func set(n int, seed uint64, tell bool) *labels.Set {
	random := rand.New(rand.NewPCG(seed, 1))
	s := &labels.Set{Set: prompts.Set{Columns: []string{"large", "small"}}, Sources: []labels.Source{{Name: "mine.jsonl", SHA256: fmt.Sprint(seed)}}}
	for i := range n {
		topic := random.IntN(len(topics))
		easy := topic < len(topics)/2
		if !tell {
			easy = random.IntN(2) == 0
		}
		p := prompts.Prompt{Text: fmt.Sprintf("question %d about %s number %d", i, topics[topic], random.IntN(1000))}
		for _, chance := range []float64{0.85, map[bool]float64{true: 0.9, false: 0.2}[easy]} {
			score := float32(0)
			if random.Float64() < chance {
				score = 1
			}
			p.Scores = append(p.Scores, score)
		}
		s.Prompts = append(s.Prompts, p)
	}
	return s
}

// fit fits a predictor to a set.
func fit(t *testing.T, s *labels.Set) *Fitted {
	t.Helper()
	f, err := Fit(s, 7, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Words that say which prompts need the large model are found, and orders by them gain most of
// what there is to gain from what words say.
func TestGainOfWordsThatTell(t *testing.T) {
	r := fit(t, set(600, 1, true)).Report
	main := r.Main()
	if main.Small != "small" || main.Large != "large" || !main.Enough || !r.Enough() || main.OverTask != nil {
		t.Fatalf("the main pair is %+v", main)
	}
	if main.Gain.Lo < 0.05 || main.Gain.Mean > main.Oracle || main.reached() < 0.4 {
		t.Errorf("gain %v, oracle %v", main.Gain, main.Oracle)
	}
	if first, last := main.Curve[0], main.Curve[Points]; len(main.Curve) != Points+1 || math.Abs(first.Gain.Mean)+math.Abs(last.Gain.Mean) > 1e-9 || main.Curve[Points/2].Gain.Mean < main.Gain.Mean {
		t.Errorf("the curve goes from %+v to %+v", first, last)
	}
	if !strings.HasSuffix(r.Verdict(), ": enough labels") {
		t.Errorf("verdict: %s", r.Verdict())
	}
}

// Words that say nothing are not enough, however many, and the promotion says so.
func TestNotEnough(t *testing.T) {
	for seed := range uint64(5) {
		s := set(150, seed+1, false)
		f := fit(t, s)
		if f.Report.Enough() || !strings.Contains(f.Report.Verdict(), ": not enough") {
			t.Errorf("seed %d: %s", seed, f.Report.Verdict())
		}
		store := (&checkpoints.Store{Path: filepath.Join(t.TempDir(), "store.db")}).Predictors()
		ref, _, err := f.Save(store, "mine", s, 1, true, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		entry, err := store.Lookup(ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := Admit(entry); err == nil || !strings.HasPrefix(err.Error(), "cannot promote mine@1: small or large by prompt: ") || !strings.HasSuffix(err.Error(), "want more labels, or --force with --reason") {
			t.Errorf("promotion: %v", err)
		}
	}
}

// An order is measured as if prompts were sent one by one, and ties in part.
func TestMeasure(t *testing.T) {
	gains := []float64{1, 0, -1, 0.5, 0.5}
	expected := []float64{3, 2, 0, 1, 1}
	prompts := []int{0, 1, 2, 3, 4}
	o := order(prompts, gains, func(i int) float64 { return expected[i] })
	curve := make([]float64, Points+1)
	got := o.measure([]uint16{1, 1, 1, 1, 1}, curve)
	// By hand: shares 0, .2, … have gains 0, 1, 1, 1.5, 2, 1 less .2 for each prompt, over 5;
	// the mean over all shares is the area under the lines between.
	want := []float64{0, 0.8, 0.6, 0.9, 1.2, 0}
	var area float64
	for k, w := range want {
		if math.Abs(curve[4*k]-w/5) > 1e-9 {
			t.Errorf("at share %v: %v, want %v", float64(k)/5, curve[4*k], w/5)
		}
		if k > 0 {
			area += (want[k-1] + w) / 2 / 25
		}
	}
	if math.Abs(got-area) > 1e-9 {
		t.Errorf("mean %v, want %v", got, area)
	}
	if twice := o.measure([]uint16{2, 2, 2, 2, 2}, curve); math.Abs(twice-got) > 1e-9 {
		t.Errorf("twice each: %v, want %v", twice, got)
	}
	level := order(prompts, gains, func(int) float64 { return 0 })
	if got := level.measure([]uint16{1, 1, 1, 1, 1}, curve); math.Abs(got) > 1e-9 {
		t.Errorf("an order that knows nothing gains %v", got)
	}
}

// The interval of the gain holds what orders gain on other prompts of the same kind.
func TestIntervalCoversTheTruth(t *testing.T) {
	covered := 0
	const draws = 40
	for seed := range uint64(draws) {
		p := &Predicted{Columns: []string{"small", "large"}}
		random := rand.New(rand.NewPCG(seed, 3))
		for range 200 {
			x := random.Float64() // what is predicted; the gain is 1 as often
			gain := float32(0)
			if random.Float64() < x {
				gain = 1
			}
			p.Tasks = append(p.Tasks, "")
			p.Scores = append(p.Scores, []float32{0, gain})
			p.Held = append(p.Held, []float64{0, x})
		}
		// The true gain is the mean of x(x−½) over 0 to 1.
		if g := Judge(p, seed).Main().Gain; g.Lo <= 1.0/12 && 1.0/12 <= g.Hi {
			covered++
		}
	}
	if covered < draws*85/100 {
		t.Errorf("%d of %d intervals hold the truth", covered, draws)
	}
}

// Prompts of several tasks are compared with the order of the tasks' means.
func TestGainOverTasks(t *testing.T) {
	p := &Predicted{Columns: []string{"small", "large"}}
	random := rand.New(rand.NewPCG(1, 3))
	for i := range 400 {
		task, gain := "easy", float32(0)
		if i%2 == 0 {
			task = "hard"
			if random.Float64() < 0.8 {
				gain = 1
			}
		}
		p.Tasks, p.Scores = append(p.Tasks, task), append(p.Scores, []float32{0, gain})
		p.Held = append(p.Held, []float64{0, map[string]float64{"easy": 0, "hard": 1}[task]}) // no more than the task
	}
	r := Judge(p, 1)
	if main := r.Main(); r.Tasks != 2 || main.Gain.Lo <= 0 || main.OverTask == nil || math.Abs(main.OverTask.Mean) > 1e-9 || main.Enough {
		t.Errorf("%d tasks, %+v", r.Tasks, main)
	}
}

// Unknown scores are left out, of the pairs that they belong to alone.
func TestMissingScores(t *testing.T) {
	s := set(400, 1, true)
	for i := range 100 {
		s.Prompts[i].Scores[1] = float32(math.NaN())
	}
	r := fit(t, s).Report
	if r.Column("large").Labels != 400 || r.Column("small").Labels != 300 || r.Main().Prompts != 300 {
		t.Errorf("labels %d and %d, %d pairs", r.Column("large").Labels, r.Column("small").Labels, r.Main().Prompts)
	}
}

// The number of further labels has the interval end at zero, by its width or, without a gain,
// by the most that it allows.
func TestMoreLabels(t *testing.T) {
	for _, c := range []struct {
		mean, lo, hi float64
		want         int
	}{
		{0.02, -0.02, 0.06, 300},          // twice as wide as it may be
		{-0.01, -0.05, 0.02, 300},         // the same, if the gain is .02
		{-0.03, -0.05, -0.01, 100},        // worse than random
		{0.00001, -0.04, 0.04, 1_000_000}, // next to none
		{0.02, -0.001, 0.04, 20},          // almost enough: 10.25
		{0, 0, 0, 100},                    // no prompt differs
	} {
		if got := more(100, evaluation.Interval{Mean: c.mean, Lo: c.lo, Hi: c.hi}); got != c.want {
			t.Errorf("%+v: %d more labels, want %d", c, got, c.want)
		}
	}
}

// Calibration compares predictions with mean scores.
func TestCalibration(t *testing.T) {
	p := &Predicted{Columns: []string{"a"}}
	for i := range 100 {
		score := float32(0)
		if i < 60 {
			score = 1
		}
		p.Scores, p.Held = append(p.Scores, []float32{score}), append(p.Held, []float64{0.8})
	}
	c := column(p, 0)
	if len(c.Bins) != 1 || c.Bins[0].Count != 100 || math.Abs(c.Error-0.2) > 1e-6 || math.Abs(c.Bins[0].Scored-0.6) > 1e-6 || c.LogLoss <= c.MeanLoss {
		t.Errorf("%+v", c)
	}
}

// A predictor is stored with its report, and predicts the same when it is loaded.
func TestSaveAndLoad(t *testing.T) {
	s := set(300, 1, true)
	f := fit(t, s)
	store := (&checkpoints.Store{Path: filepath.Join(t.TempDir(), "store.db")}).Predictors()
	ref, _, err := f.Save(store, "mine", s, 1, true, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	g, entry, err := Load(store, ref)
	if err != nil {
		t.Fatal(err)
	}
	if e := entry.Predictor; e.Labels != 300 || !slices.Equal(e.Columns, s.Columns) || e.Sources[0] != (checkpoints.Source{Name: "mine.jsonl", SHA256: "1"}) || Admit(entry) != nil {
		t.Errorf("stored is %+v, %v", e, Admit(entry))
	}
	if was, now := f.Report.Verdict(), g.Report.Verdict(); was != now {
		t.Errorf("the report says %s, and said %s", now, was)
	}
	lines := func(f *Fitted) (out []string) {
		err := Predict(f.Regression, s, func(p Prediction) error {
			text, err := json.Marshal(p)
			out = append(out, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if !slices.Equal(lines(f), lines(g)) || len(lines(f)) != 300 {
		t.Error("the loaded predictor predicts otherwise")
	}
}

func TestFitRefusesFewLabels(t *testing.T) {
	if _, err := Fit(set(5, 1, true), 7, 1, false); !errors.Is(err, quality.ErrTooFew) {
		t.Errorf("five labels: %v", err)
	}
}

// A verdict on labels that compare nothing says so, and names no number of labels.
func TestVerdictWithoutChoice(t *testing.T) {
	alike, apart := set(40, 1, true), set(40, 1, true)
	for i := range alike.Prompts {
		alike.Prompts[i].Scores = []float32{1, 0.5}
		apart.Prompts[i].Scores[i%2] = float32(math.NaN())
	}
	for want, s := range map[string]*labels.Set{
		"the scores of small and large differ by the same on every prompt: there is nothing to choose": alike,
		"no prompt has scores of both ": apart,
	} {
		if got := fit(t, s).Report.Verdict(); !strings.HasPrefix(got, want) {
			t.Errorf("%q; want %s", got, want)
		}
	}
}

// A check on further prompts agrees with the report, unless they are of another kind.
func TestCheck(t *testing.T) {
	s := set(600, 1, true)
	f := fit(t, s)
	entry := checkpoints.Entry{Name: "mine", Version: 1, Predictor: &checkpoints.Predictor{Sources: []checkpoints.Source{{Name: "mine.jsonl", SHA256: "1"}}}}
	check := func(s *labels.Set) *Check {
		t.Helper()
		c, err := CheckOn(f, entry, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := check(set(400, 2, true)); c.Gain != "level" || len(c.Seen) > 0 || c.Sure < 0.5 || slices.ContainsFunc(c.Mean, func(d Drift) bool { return d.Drifted }) {
		t.Errorf("further prompts: %+v", c)
	}
	if c := check(s); !slices.Equal(c.Seen, []string{"mine.jsonl"}) {
		t.Errorf("the prompts of the fit: %v", c.Seen)
	}
	if c := check(set(400, 2, false)); c.Gain != "below" {
		t.Errorf("prompts that words say nothing of: %s", c.Gain)
	}
	if c := check(set(5, 2, true)); c.Gain != "unknown" {
		t.Errorf("five prompts: %s", c.Gain)
	}
	worse := set(400, 2, true)
	for i := range worse.Prompts {
		worse.Prompts[i].Scores[0] = 0
	}
	if c := check(worse); !c.Mean[slices.IndexFunc(c.Mean, func(d Drift) bool { return d.Name == "large" })].Drifted {
		t.Errorf("a model that fails: %+v", c.Mean)
	}
	_, err := CheckOn(f, entry, &labels.Set{Set: prompts.Set{Columns: []string{"other"}}}, 1)
	if want := "cannot check mine@1: it predicts scores of large, small, and the labels have those of other"; err == nil || err.Error() != want {
		t.Errorf("other models: %v", err)
	}
}

// What of a scenario does not go with labels is named.
func TestAgainstScenario(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	l := &labels.Set{Set: prompts.Set{Columns: []string{"huge", "small"}}}
	for range 10 {
		l.Prompts = append(l.Prompts, prompts.Prompt{Scores: []float32{1, 1}})
	}
	found := Against(s, l)
	if len(found) != 3 || found[0] != "tasks chat: quality small: 0.6, and the mean score of 10 prompts is 1; want that" || !strings.HasPrefix(found[1], "tasks search: ") || !strings.HasPrefix(found[2], `variant large is scored as "large", which the labels do not have`) {
		t.Errorf("found %q", found)
	}
}
