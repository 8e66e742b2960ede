package policy_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

// predicted is a request of the task with these qualities by variant predicted.
func predicted(task int, qualities ...float32) *fleet.Request {
	r := &fleet.Request{Task: task, PromptTokens: 90}
	r.Predicted.Known, r.Predicted.Sure = true, 1
	copy(r.Predicted.Quality[:], qualities)
	copy(r.Predicted.Low[:], qualities)
	return r
}

// rules is every rule that weighs qualities or steps by size.
func rules(t *testing.T, table *fleet.Table) (list []policy.Rule) {
	for _, ref := range []string{"threshold", "task-threshold", "slackfit", "slackfit:0.93,0.8", "least-work", "priced", "task-aware", "budget", "universal"} {
		list = append(list, parse(t, ref, table))
	}
	return list
}

// busyView draws a view in which all is available.
func busyView(table *fleet.Table, rng *rand.Rand) *fleet.View {
	v := arrivals(idle(table), 40*rng.Float64())
	for m := range table.Variants {
		fill(v, m, int32(rng.IntN([]int{60, 80, 6}[m])), int32(rng.IntN(400)))
	}
	return v
}

// A prediction that says of the request what the row says of its task, for it is not based on
// the prompt, changes nothing.
func TestAPredictionLikeTheRowChangesNothing(t *testing.T) {
	table := conformance.Fleet(0)
	for i := range table.Tasks {
		table.Tasks[i].Quality = []float64{0.25 + float64(i)/8, 0.75, 1} // exact as float32
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rule := range rules(t, table) {
		chosen := map[int]bool{}
		for range 400 {
			v, task := busyView(table, rng), rng.IntN(len(table.Tasks))
			row := table.Tasks[task].Quality
			want := rule.Decide(v, &fleet.Request{Task: task, PromptTokens: 90}, nil)
			r := predicted(task, float32(row[0]), float32(row[1]), float32(row[2]))
			r.Predicted.Sure, r.Predicted.Gains = 0, &[fleet.MostPredicted]float32{0, 0.9, 0.9}
			if got := rule.Decide(v, r, nil); got != want {
				t.Fatalf("%s: chose %d with %v predicted, %d by the row (in flight %v)", rule.Name(), got, row, want, v.InFlight)
			}
			chosen[want] = true
		}
		if len(chosen) < 2 {
			t.Errorf("%s always chose %v", rule.Name(), chosen)
		}
	}
}

// A larger variant that is predicted no better for the prompt than a smaller one does not
// answer it, however much room it has.
func TestABetterSmallerVariantAnswers(t *testing.T) {
	table := conformance.Fleet(0)
	for _, rule := range rules(t, table) {
		for _, c := range []struct {
			qualities []float32
			down      []int
			want      int
		}{
			{[]float32{0.9, 0.5, 0.6}, nil, 0},
			{[]float32{0.2, 0.9, 0.6}, nil, 1},
			{[]float32{0.1, 0.5, 1}, nil, 2},
			{[]float32{0.1, 0.9, 1}, []int{2}, 1},
			{[]float32{0.9, 0.1, 0.8}, []int{0}, 2},
			{[]float32{0.9, 0.8, 0.5}, []int{0}, 1},
		} {
			if got := rule.Decide(down(idle(table), c.down...), predicted(hellaswag, c.qualities...), nil); got != c.want {
				t.Errorf("%s: %v predicted, down %v: chose %d, want %d", rule.Name(), c.qualities, c.down, got, c.want)
			}
		}
	}
}

// Of the rules that step by size none ever takes a larger variant that is predicted no
// better than a smaller one which is available.
func TestNoLargerVariantForNothing(t *testing.T) {
	table := conformance.Fleet(12)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, rule := range rules(t, table) {
		if strings.HasPrefix(rule.Name(), "priced") || strings.HasPrefix(rule.Name(), "least-work") || strings.HasPrefix(rule.Name(), "universal") {
			continue // the smaller one may be too late
		}
		for range 1000 {
			v := down(busyView(table, rng), rng.IntN(6)%3)
			q := []float32{float32(rng.IntN(6)), float32(rng.IntN(6)), float32(rng.IntN(6))}
			r := predicted(rng.IntN(4), q...)
			got := rule.Decide(v, r, nil)
			for m := range got {
				if v.VariantAvailable(m) && q[m] >= q[got] {
					t.Fatalf("%s: chose %d with %v predicted, though %d is available", rule.Name(), got, q, m)
				}
			}
		}
	}
}

// Of two prompts of one task the one that gains more keeps the large variant longer, and
// what few requests exceed is the measure of a gain.
func TestTaskAwareWeighsThePromptsGain(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "task-aware:1,0.08,1,1,0", table)
	filling := fill(idle(table), 2, 4, 200) // 38.9 ms of 40: room for a lack of up to 0.34
	for _, c := range []struct {
		gain float32
		most float32 // 0: not known; the largest of any task by this variant is 0.22
		want int
	}{
		{gain: 0.3, want: 2},
		{gain: 0.21, want: 2},
		{gain: 0.1, want: 1},
		{gain: 0.3, most: 0.9, want: 1},
		{gain: 0.8, most: 0.9, want: 2},
		{gain: 0.21, most: 0.1, want: 2}, // the task's is more
		{gain: 0, most: 0.1, want: 1},
	} {
		r := predicted(copa, 0, 0.1, 0.1+c.gain)
		if c.most > 0 {
			r.Predicted.Gains = &[fleet.MostPredicted]float32{0, 0.9, c.most}
		}
		if got := rule.Decide(filling, r, nil); got != c.want {
			t.Errorf("gain %v of %v: chose %d, want %d", c.gain, c.most, got, c.want)
		}
	}
}

// What the next best variant costs a window is what the prompt loses by it.
func TestBudgetSpendsOnPrompts(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "budget:0.01,1,1,0.08,1,1,0.5", table) // 0.2 of a request's peak
	for _, c := range []struct {
		qualities []float32
		want      int
	}{
		{[]float32{0.1, 0.9, 1}, 1},
		{[]float32{0.1, 0.7, 1}, 2},
		{[]float32{0.9, 0.2, 1}, 0},
		{[]float32{0.9, 0.95, 0.5}, 0},
		{[]float32{0.5, 0.95, 0.9}, 1},
	} {
		if got := rule.Decide(spent(table), predicted(hellaswag, c.qualities...), nil); got != c.want {
			t.Errorf("%v predicted: chose %d, want %d", c.qualities, got, c.want)
		}
	}
}

// learnedOf makes a learned policy of random weights that sees these features, its rule's
// advice included.
func learnedOf(t *testing.T, table *fleet.Table, features ...observation.Feature) *policy.Learned {
	t.Helper()
	s, err := observation.NewSpec(table, slices.Concat([]observation.Feature{
		{Kind: observation.Advice, Rule: "task-aware"},
		{Kind: observation.TaskOneHot},
		{Kind: observation.InFlight, Scale: []float64{25, 25, 5}},
	}, features))
	if err != nil {
		t.Fatal(err)
	}
	net, err := nn.New(s.Dim(), 32, 3)
	if err != nil {
		t.Fatal(err)
	}
	net.Randomise(rand.New(rand.NewPCG(7, 0)))
	p, err := maker(table).Learned("test@1", s, net, policy.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A learned policy that was trained without predictions decides as if there were none; one
// whose observation has them does not.
func TestLearnedPoliciesDecideByWhatTheySee(t *testing.T) {
	table := conformance.Fleet(0)
	ones := []float64{1, 1, 1}
	for _, c := range []struct {
		name     string
		features []observation.Feature
		sees     bool
	}{
		{"without", []observation.Feature{{Kind: observation.KVUse, Scale: ones}}, false},
		{"with", []observation.Feature{{Kind: observation.PredictedQuality, Scale: ones}, {Kind: observation.PredictedSure}}, true},
	} {
		p := learnedOf(t, table, c.features...)
		conformance.Policy(t, table, p)
		rng, scratch, differ := rand.New(rand.NewPCG(5, 6)), make([]float32, p.Scratch()), 0
		for range 500 {
			v := busyView(table, rng)
			r := predicted(rng.IntN(4), rng.Float32(), rng.Float32(), rng.Float32())
			plain := *r
			plain.Predicted = fleet.Prediction{}
			with := slices.Clone(p.Values(v, r, scratch))
			if !slices.Equal(with, p.Values(v, &plain, scratch)) || p.Decide(v, r, scratch) != p.Decide(v, &plain, scratch) {
				differ++
			}
		}
		if (differ > 0) != c.sees {
			t.Errorf("%s: %d of 500 decisions differ by what is predicted", c.name, differ)
		}
	}
}
