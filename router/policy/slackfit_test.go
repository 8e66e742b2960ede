package policy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

func TestSlackFit(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "slackfit:0.93", table)
	request := func(deadline time.Duration) *fleet.Request {
		return &fleet.Request{PromptTokens: 90, Deadline: deadline}
	}
	for _, test := range []struct {
		what     string
		view     *fleet.View
		deadline time.Duration
		want     int
	}{
		// Alone on an idle host OPT-6.7B takes 35.9 ms a token and 0.2 ms for its
		// own prefill: within 0.93 × 40 ms, not within 0.93 × 38.
		{"idle, the task's own deadline", idle(table), 0, 2},
		{"idle, a shorter deadline", idle(table), 38 * time.Millisecond, 1},
		{"idle, too short for all", idle(table), time.Millisecond, 0},
		// One running on each: 36.5 ms a token and 0.35 ms for two prefills.
		{"one 6.7B each", load(idle(table), 2, 1), 0, 2},
		{"five 6.7B each", load(idle(table), 2, 5), 0, 1},
		// A busy neighbour's duty slows an otherwise idle 6.7B by up to 15 %.
		{"busy neighbours", load(load(idle(table), 1, 8), 0, 8), 0, 1},
		{"everything loaded", load(load(idle(table), 2, 5), 1, 120), 0, 0},
		{"nothing up", down(idle(table), 0, 1, 2), 0, -1},
		{"smallest down, nothing fits", down(idle(table), 0), time.Millisecond, 1},
	} {
		if got := rule.Decide(test.view, request(test.deadline), nil); got != test.want {
			t.Errorf("%s: chose %d, want %d", test.what, got, test.want)
		}
	}
}

// TestSlackFitTakesTheSlowestOfTies loads the neighbours of one host only: the
// 6.7B replica there is as empty as the others, and the balancer may take it.
func TestSlackFitTakesTheSlowestOfTies(t *testing.T) {
	table := conformance.Fleet(0)
	v := idle(table)
	v.InFlight[table.ReplicasOn(3)[1]] = 20
	rule := parse(t, "slackfit", table)
	if got := rule.Decide(v, &fleet.Request{PromptTokens: 90}, nil); got != 1 {
		t.Errorf("chose %d, want 1", got)
	}
	v.InFlight[table.ReplicasOn(3)[2]] = 1 // no longer among the emptiest
	if got := rule.Decide(v, &fleet.Request{PromptTokens: 90}, nil); got != 2 {
		t.Errorf("chose %d, want 2", got)
	}
}

// TestPlainSlackFit holds the rule without k against its formula, written out,
// on loads of all kinds.
func TestPlainSlackFit(t *testing.T) {
	table := conformance.Fleet(0)
	profiles := titan(table)
	rule := parse(t, "slackfit:0.93", table)
	rng := rand.New(rand.NewPCG(3, 0))
	for range 2000 {
		v := idle(table)
		most := 1 + rng.IntN(60)
		for i := range v.InFlight {
			v.InFlight[i], v.Held[i] = int32(rng.IntN(most)), rng.Int32N(20_000)
		}
		r := &fleet.Request{PromptTokens: 1 + rng.IntN(300)}
		if got, want := rule.Decide(v, r, nil), plainSlackFit(v, r, profiles); got != want {
			t.Fatalf("in flight %v, prompt %d: chose %d, want %d", v.InFlight, r.PromptTokens, got, want)
		}
	}
}

func plainSlackFit(v *fleet.View, r *fleet.Request, profiles []*profile.Profile) int {
	step := func(i, n int, neighbours float64) (ms, duty float64) {
		return profiles[i].Step(n, n, int(float64(n)*lengths.Context), neighbours)
	}
	for m := 2; m > 0; m-- {
		var slowest float64
		for _, i := range v.Table.ReplicasOf(m) {
			if int(v.InFlight[i]) > v.Shortest(m) {
				continue
			}
			var neighbours float64
			for _, j := range v.Table.ReplicasOn(v.Table.Replicas[i].Host) {
				if n := int(v.InFlight[j]); j != i && n > 0 {
					_, duty := step(j, n, 0)
					neighbours += duty
				}
			}
			n := int(v.InFlight[i]) + 1
			ms, _ := step(i, n, neighbours)
			prefill, _ := profiles[i].Step(r.PromptTokens, 1, 0, neighbours)
			slowest = max(slowest, ms+float64(n)*prefill/lengths.Output)
		}
		if slowest <= 0.93*40 {
			return m
		}
	}
	return 0
}

func TestSlackFitMindsTokens(t *testing.T) {
	table := conformance.Fleet(0)
	plain, minding := parse(t, "slackfit:0.93", table), parse(t, "slackfit:0.93,0.8", table)
	request := &fleet.Request{PromptTokens: 90}
	v := load(idle(table), 2, 20) // too slow in any case
	if got := minding.Decide(v, request, nil); got != 1 {
		t.Errorf("empty caches: chose %d, want 1", got)
	}
	for _, i := range table.ReplicasOf(1) {
		v.InFlight[i], v.Held[i] = 20, 9000 // of 11,296 tokens: 0.804 with the prompt
	}
	if got, want := plain.Decide(v, request, nil), 1; got != want {
		t.Errorf("without k chose %d, want %d", got, want)
	}
	if got, want := minding.Decide(v, request, nil), 0; got != want {
		t.Errorf("with caches full chose %d, want %d", got, want)
	}
	// Young sequences will grow: 40 of 90 tokens each hold 3,600 now, and by the
	// time that most have ended 41·256·exp(3690/(41·256) − 1) = 5,487.
	for _, i := range table.ReplicasOf(1) {
		v.InFlight[i], v.Held[i] = 40, 3600
	}
	if got := parse(t, "slackfit:0.93,0.49", table).Decide(v, request, nil); got != 1 {
		t.Errorf("a peak of 0.486 within 0.49: chose %d, want 1", got)
	}
	if got := parse(t, "slackfit:0.93,0.48", table).Decide(v, request, nil); got != 0 {
		t.Errorf("a peak of 0.486 above 0.48: chose %d, want 0", got)
	}
	// A cache of unknown size is not minded.
	for i := range table.Replicas {
		table.Replicas[i].KVTokens = 0
	}
	if got := parse(t, "slackfit:0.93,0.1", table).Decide(v, request, nil); got != 1 {
		t.Errorf("caches of unknown size: chose %d, want 1", got)
	}
}
