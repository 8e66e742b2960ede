package training

import "testing"

// A stored policy stands for a training that would end with it. Several networks that knew
// no caution are of an earlier version, and one alone has none.
func TestPoliciesWithoutCautionAreTrainedAnew(t *testing.T) {
	for _, test := range []struct {
		preset  string
		caution float64
		same    bool
	}{{"quick", 0.5, true}, {"quick", 0, false}, {"default", 0, true}} {
		r, err := newRun(Options{Scenario: "tiny", Preset: test.preset, Store: storePath(t), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		stored := r.meta
		stored.AdviceMargin, stored.Caution = 0.02, test.caution
		if got := sameTraining(stored, r.meta); got != test.same {
			t.Errorf("preset %s, caution %v: the same is %t", test.preset, test.caution, got)
		}
		if stored.Seed++; sameTraining(stored, r.meta) {
			t.Errorf("preset %s: another seed's is the same", test.preset)
		}
	}
}
