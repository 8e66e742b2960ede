package steady

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gearshift/router/profile"
)

// grid is the samples that an engine of a known profile would give, with so much
// noise.
func grid(p profile.Profile, noise float64, beside ...float64) []Sample {
	random := rand.New(rand.NewPCG(3, uint64(1000*p.Weights)))
	var list []Sample
	add := func(s Sample) {
		for range 3 {
			s.MS = predict(&p, &s) * math.Exp(noise*random.NormFloat64())
			list = append(list, s)
		}
	}
	for _, duty := range append([]float64{0}, beside...) {
		for _, tokens := range []int{16, 32, 64, 128, 256, 512, 1024} {
			add(Sample{Cell: fmt.Sprintf("first %d beside %g", tokens, duty), Prefill: true, Tokens: tokens, Sequences: 1, Neighbours: duty})
		}
		for _, n := range []int{1, 2, 4, 8, 16, 32} {
			for _, each := range []float64{40, 200, 1000} {
				add(Sample{Cell: fmt.Sprintf("%d of %g beside %g", n, each, duty), Tokens: n, Sequences: n, Context: float64(n) * each, Neighbours: duty})
			}
		}
	}
	return list
}

var engines = map[string]profile.Profile{
	"opt-125m":   {LaunchFloor: 3.24, Weights: 0.64, Growth: 0.003, Token: 0.0035, Context: 0.000122, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
	"opt-6.7b":   {LaunchFloor: 8.64, Weights: 33.8, Growth: 0.003, Token: 0.186, Context: 0.001734, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
	"large":      {LaunchFloor: 6, Weights: 28, Growth: 0.003, Token: 0.2, Context: 0.002, Overhead: 1, Sequence: 0.2, Contention: 0.15},
	"processors": {Weights: 20, Growth: 1, Token: 6, Context: 0.01, Overhead: 0.5, Sequence: 0.3, Contention: 1.4},
	"crowded":    {Weights: 6, Growth: 0.1, Token: 0.7, Context: 0.005, Overhead: 0.5, Sequence: 0.1, Contention: 0.2, Crowding: 0.9},
}

// What was put in comes out, within what is stated, for large engines and for ones
// that only launch kernels, precise or noisy.
func TestAKnownEngineIsRecovered(t *testing.T) {
	outside := 0
	for name, p := range engines {
		for _, noise := range []float64{0.001, 0.03} {
			p.Request = 0.7
			f, err := Fit(grid(p, noise, 0.6, 0.9, 1.8), Options{Resamples: 60})
			if err != nil {
				t.Fatal(err)
			}
			known := []float64{
				floor: p.LaunchFloor, weights: p.Weights, growth: p.Growth, token: p.Token, context: p.Context,
				overhead: p.Overhead, sequence: p.Sequence, contention: p.Contention, crowding: p.Crowding, request: p.Request,
			}
			for j, want := range known {
				if i := f.Intervals[names[j]]; want < i.Low || want > i.High {
					outside++
					t.Logf("%s, noise %g: %s is %g, not in %v", name, noise, names[j], want, i)
				}
			}
			if !f.Fits() || f.Explained < 0.98 {
				t.Errorf("%s, noise %g: explains %.3f, %v", name, noise, f.Explained, f.Faults)
			}
			if noise > 0.01 {
				continue
			}
			for _, c := range f.Cells {
				if math.Abs(c.Error()) > 0.02 {
					t.Errorf("%s: %s: %.2f ms, predicted %.2f", name, c.Cell, c.MS, c.Predicted)
				}
			}
		}
	}
	// A tenth may lie outside of intervals of 90 %.
	if most := len(engines) * 2 * len(names) / 10; outside > most {
		t.Errorf("%d parameters outside of their intervals, want at most %d", outside, most)
	}
}

// What no sample tells is said to be held, and its interval is wide.
func TestWhatIsNotToldIsHeld(t *testing.T) {
	f, err := Fit(grid(engines["opt-6.7b"], 0.001), Options{Resamples: 60})
	if err != nil {
		t.Fatal(err)
	}
	held := strings.Join(f.Held, " ")
	if !strings.Contains(held, "contention") || !strings.Contains(held, "launch_floor_ms") {
		t.Errorf("held: %s", held)
	}
	if f.Profile.Contention != 0 || f.Profile.LaunchFloor != 0 {
		t.Errorf("%+v: want neither contention nor floor", f.Profile)
	}
}

func TestAMisfitIsTold(t *testing.T) {
	samples := grid(engines["large"], 0.001)
	for i := range samples {
		if s := &samples[i]; s.Prefill && s.Tokens%64 == 0 {
			s.MS *= 1 + float64(s.Tokens%3) // no order in it
		}
	}
	f, err := Fit(samples, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Fits() || !strings.Contains(strings.Join(f.Faults, "; "), FirstToken) {
		t.Errorf("faults %q", f.Faults)
	}
}

// An engine that takes a leap at some batch size, which the model cannot, is seen to:
// too much is predicted before it, and too little after.
func TestABendIsSeen(t *testing.T) {
	samples := grid(engines["large"], 0.001)
	for i := range samples {
		if s := &samples[i]; !s.Prefill && s.Sequences >= 16 {
			s.MS *= 1.3
		}
	}
	f, err := Fit(samples, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range f.Quality {
		if q.Kind == Decode && (len(q.BySequences) != 6 || q.BySequences[8] < 0.02 || q.BySequences[16] > -0.02) {
			t.Errorf("%v", q.BySequences)
		}
		if q.Kind == FirstToken && q.BySequences != nil {
			t.Errorf("%s by sequences: %v", q.Kind, q.BySequences)
		}
	}
}

func TestTooFewSamples(t *testing.T) {
	if _, err := Fit(grid(engines["large"], 0)[:6], Options{}); err == nil || !strings.Contains(err.Error(), "too few samples") {
		t.Errorf("error %v", err)
	}
}

// A machine's bad moments, a fifth of all and twice as long, are in what a profile
// predicts: a fifth more than without them.
func TestTheBadMomentsCount(t *testing.T) {
	p := engines["large"]
	var list []Sample
	for _, s := range grid(p, 0.001, 0.6) {
		s.MS = predict(&p, &s)
		for i := range 5 {
			moment := s
			if i == 0 {
				moment.MS *= 2
			}
			list = append(list, moment)
		}
	}
	f, err := Fit(list, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got float64
	for _, c := range f.Cells {
		got += c.Predicted / predict(&p, &c.Sample) / float64(len(f.Cells))
	}
	if math.Abs(got-1.2) > 0.02 {
		t.Errorf("predicted %.3f of what it takes in good moments, want 1.2", got)
	}
}
