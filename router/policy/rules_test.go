package policy_test

import (
	"testing"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
)

// The tasks of [conformance.Fleet], in its order.
const (
	hellaswag = iota
	copa
	piqa
	openbookqa
)

// fill makes every replica of the variant hold so many tokens a request.
func fill(v *fleet.View, variant int, requests, tokens int32) *fleet.View {
	for _, i := range v.Table.ReplicasOf(variant) {
		v.InFlight[i], v.Held[i] = requests, requests*tokens
	}
	return v
}

func arrivals(v *fleet.View, perSecond float64) *fleet.View {
	for i := range v.Smoothed {
		v.Smoothed[i] = perSecond
	}
	return v
}

func TestTaskThresholdsAreEachTasksOwn(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "task-threshold:8,100/2,100/2,4/1,2", table)
	v := idle(table)
	v.InFlight[0], v.InFlight[5] = 1, 2
	for task, want := range []int{2, 1, 1, 0} {
		if got := rule.Decide(v, &fleet.Request{Task: task}, nil); got != want {
			t.Errorf("3 in flight, task %d: chose %d, want %d", task, got, want)
		}
	}
}

func TestLeastWork(t *testing.T) {
	table := conformance.Fleet(0)
	// Of the 40 ms a request takes 0.143 of OPT-6.7B (7 together in 39.9), 0.013
	// of 1.3B (51 in 26.7) and 0.006 of 125M (98 in 24.5).
	for _, test := range []struct {
		what, ref string
		view      *fleet.View
		task      int
		want      int
	}{
		{"idle", "least-work:0.5,0", idle(table), copa, 2},
		{"idle, a low bound", "least-work:0.1,0", idle(table), copa, 1},
		{"three large ones each: 4 × 0.143", "least-work:0.5,0", load(idle(table), 2, 3), copa, 1},
		{"nothing within the bound: the least work", "least-work:0.001,0", load(idle(table), 0, 9), copa, 1},
		{"a price that the gain is worth", "least-work:1,1", idle(table), hellaswag, 2},
		{"a price that it is not", "least-work:1,1", idle(table), copa, 1},
		{"one replica has less work than the others", "least-work:0.5,0", only(load(idle(table), 2, 9), 5), copa, 2},
	} {
		if got := parse(t, test.ref, table).Decide(test.view, &fleet.Request{Task: test.task, PromptTokens: 90}, nil); got != test.want {
			t.Errorf("%s: chose %d, want %d", test.what, got, test.want)
		}
	}
}

// only idles one replica.
func only(v *fleet.View, replica int) *fleet.View {
	v.InFlight[replica], v.Held[replica] = 0, 0
	return v
}

func TestPriced(t *testing.T) {
	table := conformance.Fleet(0)
	for _, test := range []struct {
		what, ref string
		view      *fleet.View
		task      int
		want      int
	}{
		{"idle", "priced:1,0.03,1,0.1", idle(table), copa, 2},
		{"too many to be in time", "priced:1,0.03,1,0.1", fill(idle(table), 2, 20, 200), copa, 1},
		{"a miss that costs nothing", "priced:0", fill(idle(table), 2, 20, 200), copa, 2},
		// 35.9 ms of 40 at a spread of 5 %: late with probability 0.12. COPA
		// gains 0.05 by the large variant, HellaSwag 0.22.
		{"an uncertain gain", "priced:1,0.05,1,0.1,0", idle(table), copa, 1},
		{"a gain that is worth it", "priced:1,0.05,1,0.1,0", idle(table), hellaswag, 2},
		{"caches that overflow", "priced:1,0.03,1,0.1", fill(fill(idle(table), 2, 20, 200), 1, 45, 350), copa, 0},
		{"caches that would, were it certain", "priced:1,0.03,1,0.01", fill(fill(idle(table), 2, 20, 200), 1, 20, 350), copa, 1},
	} {
		if got := parse(t, test.ref, table).Decide(test.view, &fleet.Request{Task: test.task, PromptTokens: 90}, nil); got != test.want {
			t.Errorf("%s: chose %d, want %d", test.what, got, test.want)
		}
	}
}

// A request's own weight scales what it may earn and what it may lose alike: by itself it
// changes no choice.
func TestPricedWeighsLossesAsGains(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "priced:1,0.1,0,0.1,0", table)
	for requests := range int32(40) {
		v := fill(idle(table), 2, requests, 200)
		want := rule.Decide(v, &fleet.Request{Task: copa}, nil)
		for _, weight := range []float64{0.1, 3, 10} {
			table.Tasks[copa].Weight = weight
			if got := rule.Decide(v, &fleet.Request{Task: copa}, nil); got != want {
				t.Errorf("%d in flight, weight %v: chose %d, with weight 1 %d", requests, weight, got, want)
			}
		}
		table.Tasks[copa].Weight = 1
	}
}

// Large batches just within their deadline: a request of the next size would
// slow them beyond it, one of the smallest hardly does.
func TestPricedCountsItsNeighbours(t *testing.T) {
	table := conformance.Fleet(0)
	v, request := fill(idle(table), 2, 6, 200), &fleet.Request{Task: copa, PromptTokens: 90}
	if got := parse(t, "priced:1,0.01,0,0.1,0", table).Decide(v, request, nil); got != 1 {
		t.Errorf("without the others chose %d, want 1", got)
	}
	if got := parse(t, "priced:1,0.01,1,0.1,0", table).Decide(v, request, nil); got != 0 {
		t.Errorf("with the others chose %d, want 0", got)
	}
	for _, i := range table.ReplicasOf(1) { // there is one already: one more matters little
		v.InFlight[i], v.Held[i] = 1, 300
	}
	if got := parse(t, "priced:1,0.01,1,0.1,0", table).Decide(v, request, nil); got != 1 {
		t.Errorf("beside busy ones chose %d, want 1", got)
	}
}

// byTask is what a rule decides for a request of each task.
func byTask(rule policy.Rule, view *fleet.View) (chosen [4]int) {
	for task := range chosen {
		chosen[task] = rule.Decide(view, &fleet.Request{Task: task, PromptTokens: 90}, nil)
	}
	return chosen
}

func TestTaskAwareServesThoseFirstThatGainMost(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "task-aware:1,0.08,1,1,0", table)
	for _, test := range []struct {
		what string
		view *fleet.View
		want [4]int // by task
	}{
		{"idle", idle(table), [4]int{2, 2, 2, 2}},
		// 38.9 ms: within 40, not within 0.93 × 40.
		{"a filling batch", fill(idle(table), 2, 4, 200), [4]int{2, 1, 1, 1}},
		{"a full batch", fill(idle(table), 2, 9, 200), [4]int{1, 1, 1, 1}},
		{"full caches", fill(fill(idle(table), 2, 9, 200), 1, 40, 300), [4]int{0, 0, 0, 0}},
		{"caches that are filling, in a calm", fill(fill(idle(table), 2, 9, 200), 1, 30, 300), [4]int{1, 1, 1, 1}},
		{"the same in a burst", arrivals(fill(fill(idle(table), 2, 9, 200), 1, 30, 300), 40), [4]int{1, 0, 0, 1}},
		{"as many tokens of more requests, that will grow", arrivals(fill(fill(idle(table), 2, 9, 200), 1, 45, 200), 40), [4]int{1, 0, 0, 0}},
		{"nothing up", down(idle(table), 0, 1, 2), [4]int{-1, -1, -1, -1}},
		{"the smallest is down", down(fill(idle(table), 2, 9, 200), 0), [4]int{1, 1, 1, 1}},
	} {
		if got := byTask(rule, test.view); got != test.want {
			t.Errorf("%s: chose %v, want %v", test.what, got, test.want)
		}
	}
}

// Two large sequences fit beside an idle neighbour, not beside a busy one; at
// ten a second an idle neighbour will not stay so.
func TestTaskAwareForeseesItsNeighbours(t *testing.T) {
	table := conformance.Fleet(0)
	request := &fleet.Request{Task: hellaswag, PromptTokens: 90}
	calm := fill(idle(table), 2, 3, 200)
	busy := func() *fleet.View { return arrivals(fill(idle(table), 2, 3, 200), 10) }
	for _, test := range []struct {
		ref  string
		view *fleet.View
		want int
	}{
		{"task-aware:1,0,1,0,2", calm, 2},
		{"task-aware:1,0,1,0,2", busy(), 1},
		{"task-aware:1,0,1,0,0", busy(), 2},
		{"task-aware:1,0,1,0,2", down(busy(), 1), 2}, // a neighbour that is down gets nothing
	} {
		if got := parse(t, test.ref, table).Decide(test.view, request, nil); got != test.want {
			t.Errorf("%s at %v/s: chose %d, want %d", test.ref, test.view.Smoothed[0], got, test.want)
		}
	}
}

// A variant that is worse for a task than a smaller one is not for it.
func TestTaskAwareLeavesWhatGainsNothing(t *testing.T) {
	table := conformance.Fleet(0)
	table.Tasks[copa].Quality = []float64{0.5, 0.9, 0.8}
	table.Tasks[piqa].Quality = []float64{0.9, 0.5, 0.8}
	rule := parse(t, "task-aware", table)
	for task, want := range []int{2, 1, 0, 2} {
		if got := rule.Decide(idle(table), &fleet.Request{Task: task, PromptTokens: 90}, nil); got != want {
			t.Errorf("task %d: chose %d, want %d", task, got, want)
		}
	}
	if got := rule.Decide(down(idle(table), 0, 1), &fleet.Request{Task: piqa}, nil); got != 2 {
		t.Errorf("nothing else is up: chose %d, want 2", got)
	}
}

// fullest is a balancer that picks the fullest replica.
type fullest struct{}

func (fullest) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	best := -1
	for _, i := range v.Table.ReplicasOf(variant) {
		if v.Available(i) && (best < 0 || v.InFlight[i] > v.InFlight[best]) {
			best = i
		}
	}
	return best
}

// The prediction is for the replica that the balancer would pick.
func TestPredictionsAskTheBalancer(t *testing.T) {
	table := conformance.Fleet(0)
	v := idle(table)
	v.InFlight[5], v.Held[5] = 20, 4000 // one large replica of four
	request := &fleet.Request{Task: copa, PromptTokens: 90}
	for _, ref := range []string{"priced:1,0.03,1,0.1", "task-aware"} {
		m := maker(table)
		for _, test := range []struct {
			balancer policy.Balancer
			want     int
		}{{balance.SmallestBatch{}, 2}, {fullest{}, 1}} {
			m.Balancer = test.balancer
			rule, err := m.Parse(ref)
			if err != nil {
				t.Fatal(err)
			}
			if got := rule.Decide(v, request, nil); got != test.want {
				t.Errorf("%s with balancer %T: chose %d, want %d", ref, test.balancer, got, test.want)
			}
		}
	}
}

// Where engines take turns each loads the host for as long as it waits: rules predict
// the step that all of them come to.
func TestRulesWhereEnginesTakeTurns(t *testing.T) {
	table := conformance.Fleet(0)
	var profiles []*profile.Profile
	for _, r := range table.Replicas {
		weights := []float64{4, 8, 16}[r.Variant]
		profiles = append(profiles, &profile.Profile{Weights: weights, Overhead: 1, Sequence: 0.5, Contention: 0.2, Crowding: 1})
	}
	v := idle(table)
	for m := range table.Variants {
		load(v, m, 3)
	}
	// The large one's step with four sequences, beside the others with three.
	var duties [3]float64
	var step float64
	for range 50 {
		for m, n := range []int{3, 3, 4} {
			step, duties[m] = profiles[m].Step(n, n, 0, duties[0]+duties[1]+duties[2]-duties[m])
		}
	}
	for _, ref := range []string{"slackfit:1", "priced:9,0.001,0,0.4,0"} {
		m := &policy.Maker{Table: table, Profiles: profiles, Lengths: policy.Lengths{Context: 1}, Balancer: balance.SmallestBatch{}}
		rule, err := m.Parse(ref)
		if err != nil {
			t.Fatal(err)
		}
		for share, want := range map[float64]int{0.99: 1, 1.01: 2} {
			r := &fleet.Request{PromptTokens: 90, Deadline: profile.Duration(share * step)}
			if got := rule.Decide(v, r, nil); got != want {
				t.Errorf("%s with %v of the time that the large one takes: chose %d, want %d", ref, share, got, want)
			}
			if n := testing.AllocsPerRun(10, func() { rule.Decide(v, r, nil) }); n != 0 {
				t.Errorf("%s: %v allocations", ref, n)
			}
		}
	}
}

func BenchmarkRules(b *testing.B) {
	table := conformance.Fleet(0)
	v := arrivals(fill(fill(fill(idle(table), 2, 9, 300), 1, 30, 350), 0, 10, 300), 24)
	for _, ref := range []string{"threshold", "task-threshold", "slackfit", "slackfit:0.93,0.9", "least-work", "priced", "task-aware", "budget", "universal"} {
		b.Run(ref, func(b *testing.B) {
			rule := parse(b, ref, table)
			r := &fleet.Request{Task: copa, PromptTokens: 90}
			b.ReportAllocs()
			for b.Loop() {
				rule.Decide(v, r, nil)
			}
		})
	}
}
