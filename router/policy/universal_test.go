package policy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
)

// counted marks the requests of the view as those of a task.
func counted(v *fleet.View, task int) *fleet.View {
	n := len(v.Table.Tasks)
	v.ByTask = make([]int32, len(v.InFlight)*n)
	for i, x := range v.InFlight {
		v.ByTask[i*n+task] = x
	}
	return v
}

// universal is the rule where each task's requests have these lengths.
func universal(t *testing.T, table *fleet.Table, tasks ...policy.TaskLengths) *policy.Universal {
	t.Helper()
	m := maker(table)
	m.Lengths.Tasks = tasks
	rule, err := m.Parse("universal")
	if err != nil {
		t.Fatal(err)
	}
	return rule.(*policy.Universal)
}

func TestUniversalStepsDownUnderLoad(t *testing.T) {
	table := conformance.Fleet(0)
	rule := universal(t, table)
	for _, test := range []struct {
		what string
		view *fleet.View
		task int
		want int
	}{
		{"idle, much to gain", idle(table), hellaswag, 2},
		{"the large ones are full", fill(idle(table), 2, 12, 200), hellaswag, 1},
		{"all but the small ones are full", fill(fill(idle(table), 2, 20, 200), 1, 90, 300), hellaswag, 0},
		{"their caches are", fill(fill(idle(table), 2, 20, 200), 1, 45, 350), hellaswag, 0},
		{"only the large ones are up", down(fill(idle(table), 2, 12, 200), 0, 1), hellaswag, 2},
		{"none is up", down(idle(table), 0, 1, 2), hellaswag, -1},
	} {
		if got := rule.Decide(test.view, &fleet.Request{Task: test.task, PromptTokens: 90}, nil); got != test.want {
			t.Errorf("%s: chose %d, want %d", test.what, got, test.want)
		}
	}
}

// A long answer makes up for its prompt, a short one does not.
func TestUniversalKnowsTheTasksLengths(t *testing.T) {
	table := conformance.Fleet(0)
	long, short := policy.TaskLengths{Prompt: 300, Output: 400, Share: 0.25}, policy.TaskLengths{Prompt: 300, Output: 12, Share: 0.25}
	rule := universal(t, table, long, short, long, short)
	table.Tasks[copa].Quality = table.Tasks[hellaswag].Quality
	for task, want := range map[int]int{hellaswag: 2, copa: 1} {
		if got := rule.Decide(idle(table), &fleet.Request{Task: task, PromptTokens: 300}, nil); got != want {
			t.Errorf("task %d: chose %d, want %d", task, got, want)
		}
	}
}

// The first token may take as long as any other: a prompt that takes no longer than a step does not
// make short answers late.
func TestUniversalCountsTheFirstTokensOwnTime(t *testing.T) {
	table := conformance.Fleet(0)
	short := policy.TaskLengths{Prompt: 1, Output: 5, Share: 0.25}
	rule := universal(t, table, short, short, short, short)
	for prompt, want := range map[int]int{1: 2, 300: 1} {
		if got := rule.Decide(idle(table), &fleet.Request{Task: copa, PromptTokens: prompt}, nil); got != want {
			t.Errorf("a prompt of %d tokens: chose %d, want %d", prompt, got, want)
		}
	}
}

// A request leaves alone those whose deadline it would break, and joins those that have time.
func TestUniversalWeighsOthersByTheirOwnTasks(t *testing.T) {
	table := conformance.Fleet(0)
	table.Tasks[copa].Deadline = 18 * time.Millisecond
	table.Tasks[piqa].Deadline = 400 * time.Millisecond
	// To this one both sizes are as good: only what runs on the middle one counts.
	table.Tasks[openbookqa].Quality, table.Tasks[openbookqa].Deadline = []float64{0.5, 0.9, 0.9}, 200*time.Millisecond
	m := maker(table)
	for i := range m.Profiles {
		alone := *m.Profiles[i]
		alone.Contention = 0
		m.Profiles[i] = &alone
	}
	rule, err := m.Parse("universal")
	if err != nil {
		t.Fatal(err)
	}
	v := down(fill(idle(table), 1, 24, 200), 0)
	for running, want := range map[int]int{copa: 2, piqa: 1} {
		if got := rule.Decide(counted(v, running), &fleet.Request{Task: openbookqa, PromptTokens: 90}, nil); got != want {
			t.Errorf("next to requests of task %d: chose %d, want %d", running, got, want)
		}
	}
}

// A soft deadline is as good as a later one.
func TestUniversalTakesSoftDeadlinesForLaterOnes(t *testing.T) {
	table := conformance.Fleet(0)
	r := &fleet.Request{Task: hellaswag, PromptTokens: 90}
	v := fill(idle(table), 2, 5, 220) // about the deadline
	hard := universal(t, table).Decide(v, r, nil)
	for i := range table.Tasks {
		table.Tasks[i].Decay = fleet.PaperSoft()
	}
	if soft := universal(t, table).Decide(v, r, nil); hard == 2 || soft != 2 {
		t.Errorf("chose %d by a hard deadline, %d by a soft one, want a smaller one and 2", hard, soft)
	}
}

// Of two hosts with the same variants it takes the quicker, and the idler of equals.
func TestUniversalPlaces(t *testing.T) {
	table := conformance.Fleet(0)
	m := maker(table)
	for i, r := range table.Replicas {
		if r.Host != 2 {
			m.Profiles[i] = m.Profiles[i].Slower(1.2)
		}
	}
	rule, err := m.Parse("universal")
	if err != nil {
		t.Fatal(err)
	}
	r := &fleet.Request{Task: hellaswag, PromptTokens: 90}
	if got := rule.(*policy.Universal).Place(idle(table), r, nil); table.Replicas[got].Host != 2 {
		t.Errorf("placed on host %d, want the quick one", table.Replicas[got].Host)
	}
	v := fill(idle(table), 2, 3, 200)
	v.InFlight[5], v.Held[5] = 0, 0
	if got := universal(t, table).Place(v, r, nil); got != 5 {
		t.Errorf("placed on %d, want the idle replica 5", got)
	}
}

// With times ten times as long, at a tenth of the rate, all choices are the same: nothing in the
// rule has a unit.
func TestUniversalHasNoUnits(t *testing.T) {
	table, slow := conformance.Fleet(0), conformance.Fleet(0)
	for i := range slow.Tasks {
		slow.Tasks[i].Deadline *= 10
		slow.Tasks[i].Weight *= 3
	}
	m := maker(slow)
	for i := range m.Profiles {
		m.Profiles[i] = m.Profiles[i].Slower(10)
	}
	other, err := m.Parse("universal")
	if err != nil {
		t.Fatal(err)
	}
	rule := universal(t, table)
	rng := rand.New(rand.NewPCG(8, 1))
	chosen := map[int]bool{}
	for range 300 {
		v := counted(busyView(table, rng), rng.IntN(4))
		r := &fleet.Request{Task: rng.IntN(4), PromptTokens: rng.IntN(300)}
		want := rule.Place(v, r, nil)
		v.Table = slow
		for i := range v.Smoothed {
			v.Smoothed[i] /= 10
		}
		if got := other.(*policy.Universal).Place(v, r, nil); got != want {
			t.Fatalf("chose replica %d, ten times as slow %d", want, got)
		}
		chosen[table.Replicas[want].Variant] = true
	}
	if len(chosen) < 2 {
		t.Error("the views differ too little")
	}
}

func TestUniversalExplainsWhatItDecidesBy(t *testing.T) {
	table := conformance.Fleet(4)
	rule := universal(t, table)
	scratch := make([]float32, rule.Scratch())
	rng := rand.New(rand.NewPCG(3, 3))
	for k := range 200 {
		v, r := down(busyView(table, rng), k%4%3), &fleet.Request{Task: k % 4, PromptTokens: 90}
		want := rule.Decide(v, r, scratch)
		values, why := rule.Explain(v, r, scratch)
		if why == "" || best(v, values) != want {
			t.Fatalf("values %v (%s), chose %d", values, why, want)
		}
		for m := range values {
			if math.IsNaN(float64(values[m])) == v.VariantAvailable(m) {
				t.Fatalf("values %v, of which %d is available: %v", values, m, v.VariantAvailable(m))
			}
		}
	}
}

// Deadlines other than that per token count.
func TestUniversalHearsOfOtherDeadlines(t *testing.T) {
	table := conformance.Fleet(0)
	rule := universal(t, table)
	decide := func(first, total time.Duration) int {
		return rule.Decide(idle(table), &fleet.Request{PromptTokens: 200, FirstToken: first, Total: total}, nil)
	}
	// A prompt of 200 tokens takes 39 ms on the largest.
	if a, b, c := decide(time.Hour, time.Hour), decide(30*time.Millisecond, 0), decide(0, 3*time.Second); a != 2 || b == 2 || c == 2 {
		t.Errorf("chose %d without, %d for the first token, %d for the end", a, b, c)
	}
}

func TestUniversalWhereEnginesTakeTurns(t *testing.T) {
	table := conformance.Fleet(0)
	var profiles []*profile.Profile
	for _, r := range table.Replicas {
		profiles = append(profiles, &profile.Profile{Weights: []float64{4, 8, 16}[r.Variant], Overhead: 1, Sequence: 0.5, Contention: 0.2, Crowding: 1})
	}
	m := &policy.Maker{Table: table, Profiles: profiles, Lengths: policy.Lengths{Context: 1, Output: 100}, Balancer: balance.SmallestBatch{}}
	rule, err := m.Parse("universal")
	if err != nil {
		t.Fatal(err)
	}
	v := idle(table)
	for size := range table.Variants {
		load(v, size, 3)
	}
	// The large one takes 36 ms next to the others, of which each waits for its turn.
	for deadline, want := range map[time.Duration]bool{30 * time.Millisecond: false, 80 * time.Millisecond: true} {
		r := &fleet.Request{Task: hellaswag, PromptTokens: 9, Deadline: deadline}
		if got := rule.Decide(v, r, nil); (got == 2) != want {
			t.Errorf("chose %d by a deadline of %v", got, deadline)
		}
	}
}
