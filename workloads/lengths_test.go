package workloads

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// The lengths of the first built-in scenario.
var (
	optPrompt = Lengths{Distribution: "uniform", Min: 45, Max: 134}
	optOutput = Lengths{Distribution: "geometric", Mean: 256, Max: 1500}
)

func TestLengthMoments(t *testing.T) {
	cases := map[string]struct {
		lengths  Lengths
		mean, cv float64
	}{
		"constant":              {Lengths{Distribution: "constant", Value: 64}, 64, 0},
		"uniform":               {optPrompt, 89.5, math.Sqrt((90*90-1)/12.0) / 89.5},
		"uniform of one":        {Lengths{Distribution: "uniform", Min: 7, Max: 7}, 7, 0},
		"geometric":             {Lengths{Distribution: "geometric", Mean: 256}, 256, math.Sqrt(1 - 1.0/256)},
		"geometric, short":      {Lengths{Distribution: "geometric", Mean: 1.5}, 1.5, math.Sqrt(1 / 3.0)},
		"geometric of mean one": {Lengths{Distribution: "geometric", Mean: 1, Max: 9}, 1, 0},
		"lognormal":             {Lengths{Distribution: "lognormal", Mean: 300, CV: 0.8}, 300, 0.8},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := c.lengths.Validate(); err != nil {
				t.Fatal(err)
			}
			m := sampleLengths(t, c.lengths, 200_000)
			near(t, "expected mean", c.lengths.Expected(), c.mean, 1e-9)
			near(t, "mean", m.mean, c.mean, 0.01)
			near(t, "coefficient of variation", math.Sqrt(m.variance())/m.mean, c.cv, 0.015)
		})
	}
}

func sampleLengths(t *testing.T, l Lengths, n int) moments {
	t.Helper()
	var m moments
	s, rng := l.Sampler(), source(Seed(Evaluation, 1), outputPart)
	for range n {
		x := s(rng)
		if x < 1 || (l.Max > 0 && x > l.Max) || x < l.Min {
			t.Fatalf("drew %d from %+v", x, l)
		}
		m.add(float64(x), 1)
	}
	return m
}

// A cap piles what is beyond it up at the cap, and Expected knows by how much.
func TestCaps(t *testing.T) {
	near(t, "expected output of titan-rtx-opt", optOutput.Expected(), 256*(1-math.Pow(255.0/256, 1500)), 1e-9)
	for _, l := range []Lengths{
		optOutput,
		{Distribution: "geometric", Mean: 100, Max: 100},
		{Distribution: "lognormal", Mean: 300, CV: 2, Max: 500},
		{Distribution: "lognormal", Mean: 50, CV: 0.5, Max: 60},
	} {
		m := sampleLengths(t, l, 300_000)
		near(t, "mean", m.mean, l.Expected(), 0.01)
	}
}

// Lengths that have a max keep it; the others are cut to what fits beside them, or,
// where neither has one, to their shares of it.
func TestShapeWithin(t *testing.T) {
	constant := Lengths{Distribution: "constant", Value: 100}
	open := func(mean float64) Lengths { return Lengths{Distribution: "lognormal", Mean: mean, CV: 2} }
	for what, c := range map[string]struct {
		prompt, output     Lengths
		tokens, pMax, oMax int
	}{
		"bounded":      {optPrompt, optOutput, 5000, 134, 1500},
		"output":       {optPrompt, open(256), 5000, 134, 4866},
		"constant":     {constant, open(256), 5000, 0, 4900},
		"prompt":       {open(90), optOutput, 5000, 3500, 1500},
		"both":         {open(100), open(300), 5000, 1250, 3750},
		"just so":      {open(100.5), open(299.5), 401, 101, 300},
		"beyond reach": {open(100), open(300), 1 << 40, 5_000_000, MaxTokens},
	} {
		got := Shape{Prompt: c.prompt, Output: c.output}.Within(c.tokens)
		if got.Prompt.Max != c.pMax || got.Output.Max != c.oMax {
			t.Errorf("%s: up to %d and %d tokens, want %d and %d", what, got.Prompt.Max, got.Output.Max, c.pMax, c.oMax)
		}
		if err := errors.Join(got.Prompt.Validate(), got.Output.Validate()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLengthFaults(t *testing.T) {
	cases := []struct {
		lengths Lengths
		want    string // keys and a word of each reason
	}{
		{Lengths{}, `distribution: "" is not known; constant, uniform, geometric or lognormal would be right`},
		{Lengths{Distribution: "normal"}, `distribution: "normal" is not known`},
		{Lengths{Distribution: "constant"}, "value: 0 is not a number of tokens from 1"},
		{Lengths{Distribution: "constant", Value: 5, Mean: 5}, "mean: does not belong to a constant distribution, which has value"},
		{Lengths{Distribution: "uniform", Min: 10, Max: 5}, "max: 5 is below min, 10"},
		{Lengths{Distribution: "uniform", Max: 5}, "min: 0 is not a number"},
		{Lengths{Distribution: "uniform", Min: 1}, "max: 0 is not a number"},
		{Lengths{Distribution: "geometric"}, "mean: 0 is not a mean"},
		{Lengths{Distribution: "geometric", Mean: math.NaN()}, "mean: NaN is not a mean"},
		{Lengths{Distribution: "geometric", Mean: 20, Max: 10}, "mean: 20 is above max, 10"},
		{Lengths{Distribution: "geometric", Mean: 20, Max: -1}, "max: -1 is not a number"},
		{Lengths{Distribution: "lognormal", Mean: 20}, "cv: coefficient of variation 0 is outside"},
		{Lengths{Distribution: "lognormal", Mean: 20, CV: 1, Min: 1}, "min: does not belong to a lognormal"},
	}
	for _, c := range cases {
		err := c.lengths.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v; want %q", c.lengths, err, c.want)
		}
		if key := new(KeyError); !errors.As(err, &key) || !strings.HasPrefix(c.want, key.Key+": ") {
			t.Errorf("%+v: error %v has no key", c.lengths, err)
		}
	}
}
