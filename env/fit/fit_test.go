package fit

import (
	"math"
	"os"
	"slices"
	"testing"

	"gearshift/env/engine"
	"gearshift/router/profile"
)

// real is 300 requests that a vLLM served.
func real(t *testing.T) *Log {
	t.Helper()
	const name = "testdata/vllm_rtx4090.jsonl"
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log, err := ReadLog(file, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// fitAndPredict fits the first n and scores the rest.
func fitAndPredict(t *testing.T, log *Log, n int, o Options) (*Fitted, Errors) {
	t.Helper()
	f, err := Fit(log, n, o)
	if err != nil {
		t.Fatal(err)
	}
	times, err := f.Predict(log.Requests)
	if err != nil {
		t.Fatal(err)
	}
	return f, Compare(log.Requests[n:], times[n:])
}

func bars(t *testing.T, what string, e Errors) {
	t.Helper()
	if e.EndToEnd.Median > 0.09 || e.EndToEnd.P90 > 0.15 || e.TPOT.Median > 0.09 {
		t.Errorf("%s: %+v: want at most 9 %% (median) and 15 %% (p90) end to end, 9 %% per token", what, e)
	}
}

func TestARealEngineIsPredicted(t *testing.T) {
	for _, n := range []int{100, 150} {
		f, e := fitAndPredict(t, real(t), n, Options{Effort: 300})
		bars(t, "the rest", e)
		if !f.Fits {
			t.Errorf("a fit to %d does not fit: %+v", n, f.Errors)
		}
	}
}

// An engine twice as quick, or five times as slow, is found as well: nothing is
// set for one machine.
func TestTheScaleDoesNotMatter(t *testing.T) {
	for _, k := range []float64{0.5, 5} {
		log := real(t)
		for i := range log.Requests {
			r := &log.Requests[i]
			r.Arrival, r.Scheduled, r.First, r.Last = k*r.Arrival, k*r.Scheduled, k*r.First, k*r.Last
		}
		_, e := fitAndPredict(t, log, 150, Options{Effort: 120})
		bars(t, "scaled", e)
	}
}

// The times of what is to be predicted play no part.
func TestTheRestIsNotLookedAt(t *testing.T) {
	one, _ := fitAndPredict(t, real(t), 100, Options{Effort: 60})
	log := real(t)
	for i := range log.Requests[100:] {
		r := &log.Requests[100+i]
		r.Scheduled, r.First, r.Last = r.Scheduled+9, r.First+9, r.Last+99
	}
	other, _ := fitAndPredict(t, log, 100, Options{Effort: 60})
	if one.Model != other.Model {
		t.Errorf("%+v, with other times of the rest %+v", one.Model, other.Model)
	}
}

// simulated is a log of a known engine: the real log's requests, its arrivals
// stretched.
func simulated(t *testing.T, m Model, stretch float64) *Log {
	t.Helper()
	log := real(t)
	for i := range log.Requests {
		log.Requests[i].Arrival *= stretch
	}
	times, err := m.Predict(log.Requests)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range times {
		r := &log.Requests[i]
		r.First, r.Last, r.Scheduled = p.First, p.Last, r.Arrival
	}
	return log
}

func TestAKnownEngineIsRecovered(t *testing.T) {
	known := Model{
		Profile: profile.Profile{Weights: 12, Growth: growth, Token: 0.05, Context: 0.0001, Sequence: 0.05},
		Engine:  engine.Config{Scheduler: engine.ChunkedPrefill, MaxBatchTokens: 2048, MaxSequences: 256, BlockTokens: BlockTokens},
	}
	for _, c := range []struct {
		name            string
		kv, sequences   int
		stretch         float64
		room, unlimited bool
	}{
		{"short of room", 60_000, 256, 1, true, false},
		{"short of places", 400_000, 24, 1, false, false},
		{"with time", 400_000, 256, 2, false, true},
	} {
		m := known
		m.KVTokens, m.Engine.MaxSequences = c.kv, c.sequences
		f, e := fitAndPredict(t, simulated(t, m, c.stretch), 150, Options{Effort: 120})
		if e.EndToEnd.Median > 0.03 || e.TPOT.Median > 0.03 || e.TTFT.Median > 0.2 {
			t.Errorf("%s: %+v", c.name, e)
		}
		if off := math.Abs(float64(f.KVTokens)/float64(c.kv) - 1); c.room && off > 0.05 {
			t.Errorf("%s: %d tokens of room, want about %d", c.name, f.KVTokens, c.kv)
		}
		if c.room == slices.Contains(f.Held, "kv_tokens") {
			t.Errorf("%s: held %v", c.name, f.Held)
		}
		if !c.unlimited && f.Engine.MaxSequences != c.sequences {
			t.Errorf("%s: %d sequences, want %d", c.name, f.Engine.MaxSequences, c.sequences)
		}
		// One sequence alone is what no request of a full engine shows.
		alone, _ := known.Profile.Step(1, 1, 1000, 0)
		if got, _ := f.Profile.Step(1, 1, 1000, 0); math.Abs(got/alone-1) > 0.4 {
			t.Errorf("%s: a step alone takes %.1f ms, want about %.1f", c.name, got, alone)
		}
	}
}

// Intervals hold the truth, although a log of one load hardly tells the parts of a
// step from each other.
func TestIntervals(t *testing.T) {
	known := Model{
		Profile:  profile.Profile{Weights: 12, Growth: growth, Token: 0.05, Context: 0.0001, Sequence: 0.05},
		Engine:   engine.Config{Scheduler: engine.ChunkedPrefill, MaxBatchTokens: 2048, MaxSequences: 256, BlockTokens: BlockTokens},
		KVTokens: 60_000,
	}
	outside := 0
	for _, stretch := range []float64{1, 2} {
		f, _ := fitAndPredict(t, simulated(t, known, stretch), 150, Options{Effort: 120, Resamples: 8})
		for name, want := range map[string]float64{
			"weights_ms": known.Profile.Weights, "token_ms": known.Profile.Token, "context_token_ms": known.Profile.Context, "sequence_ms": known.Profile.Sequence,
		} {
			if i := f.Intervals[name]; !(i.Low <= want && want <= i.High) {
				outside++
				t.Logf("stretched by %g: %s is %g, not in %v", stretch, name, want, i)
			}
		}
		if i := f.Intervals["weights_ms"]; stretch == 1 && i.High < 1.1*i.Low {
			t.Errorf("weights_ms is in %v: this log cannot tell it that well", i)
		}
	}
	if outside > 1 {
		t.Errorf("%d of 8 parameters outside of their intervals", outside)
	}
}

// Latencies without a cause in load or length are no engine's.
func TestAMisfitIsTold(t *testing.T) {
	log := real(t)
	for i := range log.Requests {
		r := &log.Requests[i]
		k := 1 + 20*float64(i%2)
		r.First, r.Last = r.Arrival+k*r.TTFT(), r.Arrival+k*r.EndToEnd()
	}
	f, err := Fit(log, 300, Options{Effort: 60})
	if err != nil {
		t.Fatal(err)
	}
	if f.Fits {
		t.Errorf("fits: %+v", f.Errors)
	}
}
