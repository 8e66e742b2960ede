package fleet

import (
	"math"
	"strings"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func ms(x float64) time.Duration { return time.Duration(math.Round(x * 1e6)) }

// TestDecay holds the weights at and around the deadlines of the paper's
// tasks (LBE-2, 3, 5).
func TestDecay(t *testing.T) {
	for _, test := range []struct {
		deadline, latency, hard, soft float64
	}{
		{40, 0, 1, 1},
		{40, 39.999999, 1, 1},
		{40, 40, 1, 1},
		{40, 40.000001, 0, 0.99999999},
		{40, 41, 0, 0.99},
		{40, 43, 0, 0.97},
		{40, 43.9, 0, 0.961},
		{40, 44, 0, 0},
		{40, 45, 0, 0},
		{40, 1e9, 0, 0},
		{80, 80, 1, 1},
		{80, 87, 0, 0.93},
		{80, 88, 0, 0},
		{32, 32, 1, 1},
		{32, 35, 0, 0.97},
		{32, 35.2, 0, 0},
	} {
		hard := Task{Weight: 1, Deadline: ms(test.deadline), Quality: []float64{1}}
		soft := hard
		soft.Decay = PaperSoft()
		if got := hard.Utility(0, Times{PerToken: ms(test.latency)}, hard.Deadlines(&Request{})); got != test.hard {
			t.Errorf("hard %v at %v: %v, want %v", test.deadline, test.latency, got, test.hard)
		}
		if got := soft.Utility(0, Times{PerToken: ms(test.latency)}, soft.Deadlines(&Request{})); !near(got, test.soft) {
			t.Errorf("soft %v at %v: %v, want %v", test.deadline, test.latency, got, test.soft)
		}
	}
}

func TestSoftNeverFallsBelowZero(t *testing.T) {
	steep := Soft{PerMillisecond: 0.5, Cutoff: 1}
	if got := steep.Factor(50, 40); got != 0 {
		t.Errorf("factor %v, want 0", got)
	}
}

// A request is worth what its task weighs, times the quality of the size that answered, times
// what is left of it at that latency (LBE-1).
func TestUtility(t *testing.T) {
	task := Task{Weight: 3, Deadline: ms(40), Decay: PaperSoft(), Quality: []float64{0.45, 0.78, 1}}
	for _, test := range []struct {
		variant           int
		latency, deadline time.Duration
		want              float64
	}{
		{1, ms(40), 0, 3 * 0.78},
		{0, ms(42), 0, 3 * 0.98 * 0.45},
		{2, ms(42), ms(50), 3},   // the request's own deadline
		{2, ms(42), ms(32), 0},   // a shorter one
		{2, ms(42), -1, 3 * .98}, // none
	} {
		if got := task.Utility(test.variant, Times{PerToken: test.latency}, task.Deadlines(&Request{Deadline: test.deadline})); !near(got, test.want) {
			t.Errorf("utility of variant %d at %v of %v is %v, want %v", test.variant, test.latency, test.deadline, got, test.want)
		}
	}
}

// TestPaperQuality holds the task means of the reward matrix: what each size
// is worth with uniform tasks and no deadline missed (LBE-6).
func TestPaperQuality(t *testing.T) {
	tasks := []Task{
		{Name: "hellaswag", Quality: []float64{0.45, 0.78, 1}},
		{Name: "copa", Quality: []float64{0.80, 0.95, 1}},
		{Name: "piqa", Quality: []float64{0.82, 0.96, 1}},
		{Name: "openbookqa", Quality: []float64{0.70, 0.94, 1}},
	}
	for variant, want := range []float64{0.6925, 0.9075, 1} {
		var sum float64
		for _, task := range tasks {
			task.Weight, task.Deadline = 1, ms(40)
			sum += task.Utility(variant, Times{PerToken: ms(40)}, task.Deadlines(&Request{}))
		}
		if mean := sum / 4; !near(mean, want) {
			t.Errorf("variant %d is worth %v, want %v", variant, mean, want)
		}
	}
}

func TestTableIndexes(t *testing.T) {
	built := table(t)
	for name, want := range map[string]int{"small": 0, "large": 1, "huge": -1, "": -1} {
		if got := built.VariantIndex(name); got != want {
			t.Errorf("variant %q has index %d, want %d", name, got, want)
		}
	}
	if built.TaskIndex("task") != 0 || built.TaskIndex("other") != 1 || built.TaskIndex("third") != -1 {
		t.Error("tasks are not found by name")
	}
	if got := built.ReplicasOf(1); len(got) != 2 || got[0] != 2 || got[1] != 3 {
		t.Errorf("replicas of the large variant: %v", got)
	}
	if got := built.ReplicasOn(1); len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Errorf("replicas on host b: %v", got)
	}
}

func TestTableNamesEveryFault(t *testing.T) {
	_, err := NewTable(
		[]Task{{Name: "one", Deadline: 1, Quality: []float64{1}}, {Name: "one", Quality: []float64{1, 1}}},
		[]Variant{{Name: "small"}, {Name: "small"}},
		[]Host{{Name: "a"}},
		[]Replica{{Name: "r", Variant: 2}, {Name: "q", Host: -1}, {Name: "p", Limit: -1}})
	if err == nil {
		t.Fatal("a table of faults is accepted")
	}
	for _, want := range []string{
		`variant "small" is listed twice`,
		`task "one" is listed twice`,
		`task "one" has 1 qualities for 2 variants`,
		`task "one" has deadline 0s; it must be positive`,
		`replica "r" names variant 2 of 2 and host 0 of 1`,
		`replica "q" names variant 0 of 2 and host -1 of 1`,
		`replica "p" has limit -1; it must not be negative`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if _, err := NewTable(nil, nil, nil, nil); err == nil {
		t.Error("an empty table is accepted")
	}
}

func TestLast(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		decay    Decay
		deadline time.Duration
		want     time.Duration
	}{
		{nil, 0, 40 * ms},
		{Hard{}, 20 * ms, 20 * ms},
		{PaperSoft(), 0, 44 * ms},
		{PaperSoft(), 2 * time.Second, 2100 * ms}, // 1 % a ms is gone before 10 % of the deadline
		{Soft{Cutoff: 0.5}, 20 * ms, 30 * ms},
	} {
		task := Task{Deadline: 40 * ms, Decay: c.decay, Weight: 1, Quality: []float64{1}}
		last := task.Last(c.deadline)
		if last != c.want {
			t.Errorf("%+v, deadline %v: last %v, want %v", c.decay, c.deadline, last, c.want)
		}
		d := task.Deadlines(&Request{Deadline: c.deadline})
		if task.Utility(0, Times{PerToken: last + ms}, d) != 0 || task.Utility(0, Times{PerToken: last - ms}, d) <= 0 {
			t.Errorf("%+v, deadline %v: something is left after %v, or nothing before", c.decay, c.deadline, last)
		}
	}
}
