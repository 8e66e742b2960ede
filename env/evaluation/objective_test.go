package evaluation_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
)

// parse reads an objective that is written rightly.
func parse(t *testing.T, text string) evaluation.Objective {
	t.Helper()
	o, err := evaluation.ParseObjective(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// mostly is a run of n requests that earn as much, but for those at the indices, which earn
// nothing.
func mostly(n int, earned float64, lost ...int) []float64 {
	run := slices.Repeat([]float64{earned}, n)
	for _, i := range lost {
		run[i] = 0
	}
	return run
}

func TestValue(t *testing.T) {
	heavy := mostly(20, 1) // one request weighs as much as all others
	heavy[7] = 19
	for _, c := range []struct {
		what, objective string
		utility, peak   []float64
		want            float64
	}{
		{"the mean", "utility", []float64{0.5, 2, 0.5}, []float64{1, 3, 1}, 1},
		{"powers of shares, weighed by the peaks", "power:2", []float64{0.5, 1, 4}, []float64{1, 2, 4}, (0.25 + 0.5 + 4) / 3},
		{"the power one", "power:1", []float64{0.5, 1, 4}, []float64{1, 2, 4}, 5.5 / 3},
		{"nothing to earn", "power:8", []float64{0, 1}, []float64{0, 1}, 0.5},
		{"a loss in one of two windows", "near-peak", mostly(21, 3, 0), mostly(21, 3), (0.25 + 1) / 2},
		{"a loss in both windows", "near-peak", mostly(21, 3, 1), mostly(21, 3), 0.25},
		{"two losses", "near-peak", mostly(20, 1, 3, 4), mostly(20, 1), 0},
		{"one of the levels", "near-peak", append(mostly(19, 1), 0.2), mostly(20, 1), 0.5},
		{"all levels but the peak itself", "near-peak", append(mostly(19, 1), 0.8), mostly(20, 1), 1},
		{"a light loss", "near-peak", func() []float64 { u := slices.Clone(heavy); u[0] = 0; return u }(), heavy, 0.5},
		{"a heavy loss", "near-peak", func() []float64 { u := slices.Clone(heavy); u[7] = 0; return u }(), heavy, 0},
		{"windows by their weights", "windows:0.75,2", []float64{0, 3, 1, 0, 1}, []float64{1, 3, 1, 3, 1}, 2. / 4},
		{"the rounding of a sum", "windows:1,10", mostly(10, 0.1), mostly(10, 0.1), 1},
		{"nothing to earn in a window", "windows:1,2", []float64{0, 0, 0}, []float64{0, 0, 1}, 0.5},
		{"fewer requests than a window", "near-peak", mostly(19, 1), mostly(19, 1), 0},
		{"as many requests as a window", "near-peak", mostly(20, 1), mostly(20, 1), 1},
	} {
		if got := parse(t, c.objective).Value(c.utility, c.peak); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %s of %v is %v, want %v", c.what, c.objective, c.utility, got, c.want)
		}
	}
	for _, text := range []string{"utility", "near-peak", "power:8", "windows:0.98,5"} {
		if got := parse(t, text).Value(nil, nil); !math.IsNaN(got) {
			t.Errorf("%s of no request is %v", text, got)
		}
	}
}

// What near-peak counts are the levels of the paper's tables but for the peak itself.
func TestWorthOfNearPeak(t *testing.T) {
	for share, want := range map[float64]float64{
		1: 1, 0.99: 1, 0.9899: 0.75, 0.98: 0.75, 0.979: 0.5, 0.96: 0.5, 0.95: 0.25, 0.94: 0.25, 0.939: 0, 0: 0, -1: 0,
	} {
		if got := evaluation.NearPeak.Worth(share); got != want {
			t.Errorf("a share of %v is worth %v, want %v", share, got, want)
		}
	}
}

// What is written is read as it was, and the zero value is mean utility.
func TestObjectivesAreReadAsWritten(t *testing.T) {
	for text, window := range map[string]int{"utility": 1, "near-peak": 20, "power:8": 1, "power:0.5": 1, "windows:0.98,20": 20, "windows:1,64": 64} {
		o := parse(t, text)
		if o.String() != text || o.Window() != window || o.IsZero() != (text == "utility") {
			t.Errorf("%s is %s of windows of %d, zero %t", text, o, o.Window(), o.IsZero())
		}
		written, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var read evaluation.Objective
		if err := json.Unmarshal(written, &read); err != nil || read != o {
			t.Errorf("%s is read from %s as %v, %v", text, written, read, err)
		}
	}
	if o := parse(t, ""); o != evaluation.MeanUtility || o != (evaluation.Objective{}) {
		t.Errorf("nothing is read as %s", o)
	}
	if parse(t, "windows:0.98, 5") != parse(t, "windows:0.98,5") {
		t.Error("a space after the comma makes another objective")
	}
}

func TestObjectivesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"peak":            `unknown objective "peak"; want utility, near-peak, power:P or windows:SHARE,N`,
		"utility:1":       "utility takes no numbers",
		"near-peak:3":     "near-peak:3: near-peak takes no numbers; want near-peak alone, or power:P or windows:SHARE,N",
		"windows":         "windows: want a share and a number of requests, such as windows:0.98,20; several shares at once are near-peak", // as --tune-for once took it
		"power":           `power: want a number after power:, such as power:8, found ""`,
		"power:":          `found ""`,
		"power:x":         `power:x: want a number after power:, such as power:8, found "x"`,
		"power:0":         "power 0; want above 0",
		"power:-1":        "power -1; want above 0",
		"power:1001":      "at most 1000",
		"power:NaN":       "power NaN",
		"power:Inf":       "power +Inf",
		"windows:":        "want a share and a number of requests, such as windows:0.98,20",
		"windows:0.98":    "want a share and a number of requests",
		"windows:,20":     "want a share and a number of requests",
		"windows:1,2,3":   "want a share and a number of requests",
		"windows:0.9,2.5": "want a share and a number of requests",
		"windows:0,20":    "share 0 of the peak; want above 0 and at most 1",
		"windows:1.01,20": "share 1.01 of the peak",
		"windows:NaN,20":  "share NaN of the peak",
		"windows:0.98,1":  "windows of 1 requests; want 2 to 64",
		"windows:0.98,65": "windows of 65 requests; want 2 to 64",
	} {
		o, err := evaluation.ParseObjective(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %s, %v; want an error with %s", text, o, err, want)
		}
	}
}
