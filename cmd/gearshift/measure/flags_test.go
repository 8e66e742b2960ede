package measure

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
)

// What the flags leave open of a model's memory is that of the scenario's profile.
func TestTheScenarioSaysTheMemory(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	known := s.Models[slices.IndexFunc(s.Models, func(l scenario.LatencyModel) bool { return l.Variant == "large" })]
	o := measureOptions{scenario: "tiny", profile: profiling.Options{KVBytes: 7}}
	if err := o.memory("large"); err != nil {
		t.Fatal(err)
	}
	if want := (profiling.Options{WeightBytes: known.WeightBytes, ActivationBytes: known.ActivationBytes, KVBytes: 7}); known.WeightBytes == 0 || o.profile != want {
		t.Errorf("%+v, want %+v", o.profile, want)
	}
	if err := o.memory("huge"); err == nil || !strings.Contains(err.Error(), "small, large") {
		t.Errorf("error %v", err)
	}
}

// One seed is that of the measurement and of the profile's intervals.
func TestTheSeedOfAMeasurement(t *testing.T) {
	o := measureOptions{
		url: "http://127.0.0.1:1", batches: []int{1, 2}, prompts: []int{16, 64}, output: 32, time: time.Second, profile: profiling.Options{Seed: 7},
	}
	if c, err := o.config(); err != nil || c.Seed != 7 {
		t.Errorf("seed %d, %v", c.Seed, err)
	}
}

// Where nobody watches, a line comes every ten seconds.
func TestReplayShowsProgress(t *testing.T) {
	var b strings.Builder
	tell := replayed(&b, 120, time.Minute)
	for i := 1; i <= 25; i++ {
		tell(loadgen.ReplayProgress{Elapsed: time.Duration(i) * time.Second, Sent: 2 * i, Answered: i})
	}
	if want := "10s of 1m0s: 20 of 120 sent, 10 answered\n20s of 1m0s: 40 of 120 sent, 20 answered\n"; b.String() != want {
		t.Errorf("said\n%swant\n%s", b.String(), want)
	}
	b.Reset() // after its time, only answers are waited for
	tell(loadgen.ReplayProgress{Elapsed: 70 * time.Second, Sent: 120, Answered: 110})
	if want := "1m10s: 120 of 120 sent, 110 answered\n"; b.String() != want {
		t.Errorf("said %q, want %q", b.String(), want)
	}
}

// A learned policy is that of the store of the flags.
func TestTheRoutersPolicyIsOfTheStore(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	o := validateOptions{store: enginetest.Store(t, "tiny", "mine"), engine: onnxruntime.Native}
	var notes []string
	if p, err := o.routersPolicy(s, s.Table(), "mine@1", &notes); err != nil || p.Name() != "mine@1" || len(notes) != 0 {
		t.Errorf("%v, notes %q, %v", p, notes, err)
	}
}
