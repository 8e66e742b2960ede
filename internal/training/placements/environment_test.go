package placements

import (
	"bytes"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/placement/layouts"
)

func shifting(t *testing.T) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load("../../../docs/scenarios/titan-rtx-shifting.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newEnvironment(t *testing.T, length time.Duration) *environment {
	t.Helper()
	o := Options{Scenario: shifting(t), Laws: Laws()}
	e, err := o.environment()
	if err != nil {
		t.Fatal(err)
	}
	e.loads.length = length
	return e
}

// trail plays an episode by a fixed sequence of rows and returns all that the environment reports.
func trail(t *testing.T, e *environment, seed uint64) (trail []float64, rewards float64) {
	t.Helper()
	observation := e.Reset(seed)
	completed := map[int]bool{}
	decisions := 0
	for k := 0; ; k++ {
		action := 0
		if rows := e.encoder.Rows(); k%7 == 3 {
			for a := 1; a < rows; a++ {
				if observation[layouts.Shared+a*layouts.Own] != 0 {
					action = a
				}
			}
		}
		step := e.Step(action)
		decisions++
		for _, c := range step.Completed {
			if completed[c.Decision] {
				t.Fatalf("decision %d completes twice", c.Decision)
			}
			completed[c.Decision] = true
			rewards += c.Utility
			trail = append(trail, float64(c.Decision), c.Utility)
		}
		trail = append(trail, step.Elapsed.Seconds())
		for _, x := range step.Observation {
			trail = append(trail, float64(x))
		}
		if observation = step.Observation; step.Truncated {
			break
		}
	}
	if e.err != nil {
		t.Fatal(e.err)
	}
	if len(completed) != decisions {
		t.Fatalf("%d of %d decisions complete", len(completed), decisions)
	}
	return trail, rewards
}

// The same seed and actions give the same episode, also after another one that was left in its middle.
func TestAnEpisodeIsTheSameAgain(t *testing.T) {
	e := newEnvironment(t, time.Minute)
	first, _ := trail(t, e, 5)
	e.Reset(6)
	e.Step(0)
	again, _ := trail(t, e, 5)
	other, _ := trail(t, newEnvironment(t, time.Minute), 5)
	if !slices.Equal(first, again) || !slices.Equal(first, other) {
		t.Error("an episode differs from itself")
	}
}

// Where nothing is changed, nothing is gained over layouts that stay.
func TestToStayGainsNothing(t *testing.T) {
	e := newEnvironment(t, time.Minute)
	e.Reset(3)
	for {
		step := e.Step(0)
		for _, c := range step.Completed {
			if math.Abs(c.Utility) > 1e-9 {
				t.Fatalf("decision %d is rewarded by %v", c.Decision, c.Utility)
			}
		}
		if step.Truncated {
			return
		}
	}
}

// A short run ends with the same policy again.
func TestTrainingIsRepeatable(t *testing.T) {
	var networks [2][]byte
	for i := range networks {
		trained, err := Train(context.Background(), Options{Scenario: shifting(t), Seed: 2, Decisions: 400, Validation: 1})
		if err != nil {
			t.Fatal(err)
		}
		if networks[i], err = trained.Network.MarshalBinary(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(networks[0], networks[1]) {
		t.Error("two runs of a seed end with different networks")
	}
}

// The larger a model, the longer it takes by a law.
func TestLawsFollowMemory(t *testing.T) {
	s := shifting(t)
	s.Weights = []scenario.Model{{Name: "small", Memory: 500e6}, {Name: "middle", Memory: 5e9}, {Name: "large", Memory: 14e9}}
	law := Laws()[0]
	on := law.On(s)
	if a, b, c := on.Weights[0].WakeMS, on.Weights[1].WakeMS, on.Weights[2].WakeMS; a != 800 || c != 2600 || !(a < b && b < c) {
		t.Errorf("wakes of small to large models take %v, %v and %v ms", a, b, c)
	}
	if s.Weights[0].WakeMS != 0 {
		t.Error("the scenario itself is changed")
	}
}

// The loads of training last as long as an episode, within the rates of the scenario.
func TestLoadsFillAnEpisode(t *testing.T) {
	l := &loads{least: 0.5, most: 40, length: 5 * time.Minute}
	for seed := range uint64(200) {
		var sum time.Duration
		for _, p := range l.draw(seed) {
			sum += p.Duration
			if p.Rate < l.least-1e-9 || p.Rate > l.most+1e-9 {
				t.Fatalf("seed %d: a rate of %v", seed, p.Rate)
			}
		}
		if sum != l.length {
			t.Fatalf("seed %d: %v of load", seed, sum)
		}
	}
}
