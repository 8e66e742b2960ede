package placements

import (
	"bytes"
	"context"
	"testing"
	"time"

	"gearshift/internal/scenario"
)

func shifting(t *testing.T) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load("../../../docs/scenarios/titan-rtx-shifting.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The same options make the same policy, however many episodes are played at a time.
func TestTrainingIsRepeatable(t *testing.T) {
	var networks [2][]byte
	for i := range networks {
		m, err := Train(context.Background(), Options{Scenario: shifting(t), Seed: 2, Episodes: 1, length: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if networks[i], err = m.MarshalBinary(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(networks[0], networks[1]) {
		t.Error("two runs of a seed end with different networks")
	}
}

// The search finds the top of a hill.
func TestSearchClimbs(t *testing.T) {
	s, top := newSearch(6, 1), []float64{1, -2, 0.5, 0, 3, -1}
	far := func(x []float64) (sum float64) {
		for i := range x {
			sum += (x[i] - top[i]) * (x[i] - top[i])
		}
		return sum
	}
	for range 150 {
		earned := make([]float64, 0, population)
		for _, x := range s.draw() {
			earned = append(earned, -far(x))
		}
		s.learn(earned)
	}
	if d := far(s.mean); d > 0.01 {
		t.Errorf("the mean is %.3f from the top", d)
	}
}

// The larger a model, the longer it takes by a law; where a scenario lists no models, each variant is one.
func TestLawsFollowMemory(t *testing.T) {
	s := shifting(t)
	s.Weights = nil
	for i := range s.Variants {
		s.Variants[i].Model = ""
	}
	table := Laws()[0].On(s).Table()
	wake := func(variant int) time.Duration { return table.Models[table.ModelOf(variant)].WakeTime() }
	if a, b, c := wake(0), wake(1), wake(2); a != 800*time.Millisecond || c != 2600*time.Millisecond || !(a < b && b < c) {
		t.Errorf("wakes of small to large models take %v, %v and %v", a, b, c)
	}
	if len(s.Weights) > 0 || s.Variants[0].Model != "" {
		t.Error("the scenario itself is changed")
	}
}

// The loads of training last until an episode's requests or its length, within the rates of the scenario.
func TestLoadsFillAnEpisode(t *testing.T) {
	l := &loads{least: 0.5, most: 40, requests: 2000, length: 10 * time.Minute}
	for seed := range uint64(200) {
		sum, requests := 0.0, 0.0
		for _, p := range l.draw(seed) {
			sum, requests = sum+p.Duration.Seconds(), requests+p.Rate*p.Duration.Seconds()
			if p.Rate < l.least-1e-9 || p.Rate > l.most+1e-9 {
				t.Fatalf("seed %d: a rate of %v", seed, p.Rate)
			}
		}
		if sum > 600.001 || requests > 2041 || sum < 599.999 && requests < 1999.999 {
			t.Fatalf("seed %d: %v s of load with %v requests", seed, sum, requests)
		}
	}
}
