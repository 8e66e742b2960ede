package policy_test

import (
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
)

// rules that predict, each of which takes the largest variant for an idle fleet.
var predicting = []string{"slackfit", "least-work:1,0", "priced:0.4,0.01,0", "task-aware", "budget:0.005"}

// Each rule that predicts leaves the largest variant to those whose first token, and whole
// answer, are forecast to be in time there.
func TestRulesHearOfAllDeadlines(t *testing.T) {
	table := conformance.Fleet(0)
	for _, ref := range predicting {
		rule := parse(t, ref, table)
		decide := func(first, total time.Duration) int {
			return rule.Decide(idle(table), &fleet.Request{PromptTokens: 1500, FirstToken: first, Total: total}, nil)
		}
		largest := decide(0, 0)
		if largest != 2 {
			t.Errorf("%s: chose %d without a further deadline, want the largest", ref, largest)
		}
		if got := decide(time.Hour, 2*time.Hour); got != largest {
			t.Errorf("%s: chose %d with deadlines that surely hold, want %d", ref, got, largest)
		}
		// A prompt of 1500 tokens takes 279 ms on the largest and 5 ms on the smallest.
		if got := decide(100*time.Millisecond, 0); got >= largest {
			t.Errorf("%s: chose %d for a first token that is late there", ref, got)
		}
		if got := decide(0, 3*time.Second); got >= largest {
			t.Errorf("%s: chose %d for an answer that ends too late there", ref, got)
		}
	}
}

func TestRulesWithSeveralDeadlinesAllocateNothing(t *testing.T) {
	table := conformance.Fleet(0)
	v, r := fill(idle(table), 2, 3, 900), &fleet.Request{PromptTokens: 1500, FirstToken: time.Second, Total: time.Minute}
	for _, ref := range predicting {
		rule := parse(t, ref, table)
		scratch := make([]float32, rule.Scratch())
		if n := testing.AllocsPerRun(50, func() { rule.Decide(v, r, scratch) }); n != 0 {
			t.Errorf("%s: %v allocations", ref, n)
		}
	}
}
