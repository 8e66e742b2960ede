package modality

import (
	"math/rand/v2"
	"testing"
)

// TestEachNameIsAPolicy: each plans the paper's example; names that are none are refused.
func TestEachNameIsAPolicy(t *testing.T) {
	table := table(t, figure2(), Mixed, 2)
	jobs := []Job{{ID: "2", Size: 2, MinQuality: 0.71, Deadline: 140}, {ID: "3", Size: 2, MinQuality: 0.67, Deadline: 150}}
	for _, name := range Names {
		p, err := Named(name, table, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		var plan Plan
		p.Plan(20, jobs, &plan)
		if len(plan.Steps)+len(plan.Dropped) != 2 || plan.Steps[0].Job != 0 {
			t.Errorf("%s: %+v", name, plan)
		}
		if late := plan.Steps[len(plan.Steps)-1].Finish > 150; late != (name == "none") {
			t.Errorf("%s: late is %t", name, late)
		}
	}
	if p, err := Named("best", table, nil); p != nil || err == nil || err.Error() != `unknown policy "best"; want one of foresight, foresight-bold, optimized, optimized-literal, random, aggressive, none-drop, none` {
		t.Errorf("%v, %v", p, err)
	}
}
