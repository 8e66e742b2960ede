package training

import (
	"math"
	"math/rand/v2"
	"testing"

	"gearshift/router/modality"
)

// drawnSamples are stretches in which a caution of 3 gains where batch times vary by more than 0.2 and the
// load is above 0.5, a caution of 1 where they do not and it is, and any costs a little elsewhere; all
// with noise of the size.
func drawnSamples(n int, noise float64) []jobsSample {
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]jobsSample, n)
	for i := range list {
		s := &list[i]
		for c := range s.conditions {
			s.conditions[c] = rng.Float64()
		}
		busy, varies := s.conditions[modality.ConditionLoad] > 0.5, s.conditions[modality.ConditionSpread] > 0.2
		for k := 1; k < len(cautions); k++ {
			gain := -0.1
			if wanted := map[bool]float64{true: 3, false: 1}[varies]; busy && cautions[k] == wanted {
				gain = 1
			}
			s.gains[k] = gain + noise*rng.NormFloat64()
		}
	}
	return list
}

// TestTreesFindTheConditions: a tree has the right caution on both sides of each bound, and none where
// nothing is gained.
func TestTreesFindTheConditions(t *testing.T) {
	tree := growth{3, 100, 4}.grow(drawnSamples(4000, 0.5))
	if err := tree.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ load, spread, want float64 }{
		{0.4, 0.9, modality.Unforeseeing}, {0.4, 0.1, modality.Unforeseeing}, {0.55, 0.15, 1}, {0.55, 0.25, 3}, {0.95, 0.1, 1}, {0.95, 0.95, 3},
	} {
		conditions := modality.Conditions{modality.ConditionLoad: c.load, modality.ConditionSpread: c.spread, modality.ConditionStake: 0.5, modality.ConditionFull: 0.5, modality.ConditionRecent: 0.5, modality.ConditionLargest: 0.5}
		if got := tree.At(conditions); got != c.want {
			t.Errorf("load %v, spread %v: caution %v, want %v, of %v", c.load, c.spread, got, c.want, tree)
		}
	}
	least, most := tree.Range()
	if least != modality.Unforeseeing || most != 3 {
		t.Errorf("cautions from %v to %v", least, most)
	}
}

// TestTreesDoNotGrowOnNoise: what is gained by chance alone is not enough for a caution.
func TestTreesDoNotGrowOnNoise(t *testing.T) {
	list := drawnSamples(2000, 1)
	for i := range list {
		for k := 1; k < len(cautions); k++ {
			list[i].gains[k] = float64((i*7+k*3)%11-5) / 5
		}
	}
	if tree := (growth{4, 200, 4}).grow(list); len(tree) != 1 || tree[0].Caution != modality.Unforeseeing {
		t.Errorf("%v", tree)
	}
}

// TestEpisodesCountAlike: what is gained is relative to what is at stake in the episode, and little
// where next to nothing is.
func TestEpisodesCountAlike(t *testing.T) {
	of := func(worth ...float64) *played { return &played{worth, []float64{10, 10, 10}} }
	none, some := of(5, 5, 5), of(7, 4.9, 5.0001)
	j := newJobsJudge([]*played{none, some})
	mean, fault := j.compare(some, none)
	// Of a request 0.2 of 0.2, −0.01 of 0.01, and 0.00001 of 0.00001, each with 0.001 more.
	want := []float64{0.2 / 0.201, -0.01 / 0.011, 0.00001 / 0.00101}
	sum := want[0] + want[1] + want[2]
	if math.Abs(mean-sum/3) > 1e-9 || fault < 0.4 || fault > 0.5 {
		t.Errorf("gain %v ± %v, want %v", mean, fault, sum/3)
	}
	if got := none.mean(); got != 0.5 {
		t.Errorf("a request is worth %v", got)
	}
}

// TestSamplesAddUp: the gains of an episode's samples are those of the whole, relative to the stakes, and
// conditions are noted.
func TestSamplesAddUp(t *testing.T) {
	w, err := newJobsSettings([]JobsModel{tvlt()}, 4)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := w.compare(t.Context(), 1, 6)
	if err != nil || len(samples) < 40 {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	noted, gained := 0, 0
	for _, s := range samples {
		if s.gains[0] != 0 {
			t.Errorf("without foresight %v is gained over itself", s.gains[0])
		}
		if s.conditions[modality.ConditionLoad] > 0 && s.conditions[modality.ConditionStake] > 0 {
			noted++
		}
		for _, g := range s.gains {
			if math.Abs(g) > 0.01 {
				gained++
			}
		}
	}
	if noted < len(samples)*3/4 || gained == 0 {
		t.Errorf("of %d samples %d have conditions, and %d gains are above 0.01", len(samples), noted, gained)
	}
}
