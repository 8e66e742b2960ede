package policy_test

import (
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
)

// spent is a view of an idle fleet whose latest requests fell short by these.
func spent(t *fleet.Table, shortfalls ...float32) *fleet.View {
	v := idle(t)
	copy(v.Recent[:], shortfalls)
	return v
}

// In a calm the next best variant answers where its loss is within what is left of the
// window's budget, here 0.2 of a request's peak.
func TestBudgetSpendsWhatIsLeft(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "budget:0.01,1,1,0.08,1,1,0.5", table)
	before := make([]float32, 20)
	before[19] = 0.19 // ends with the window before
	for _, test := range []struct {
		what string
		view *fleet.View
		want [4]int // by task
	}{
		{"nothing is spent", spent(table), [4]int{2, 1, 1, 1}}, // hellaswag would lose 0.22
		{"0.055 is left", spent(table, 0.1, 0, 0.045), [4]int{2, 1, 1, 2}},
		{"0.01 is left", spent(table, 0.19), [4]int{2, 2, 2, 2}},
		{"spent before the window", spent(table, before...), [4]int{2, 1, 1, 1}},
		{"spent by the first of the window", spent(table, before[1:]...), [4]int{2, 2, 2, 2}},
		{"its windows are lost already", spent(table, 1, 0.21), [4]int{2, 1, 1, 1}},
		{"the next best is down", down(spent(table), 1), [4]int{2, 2, 2, 2}},
	} {
		if got := byTask(rule, test.view); got != test.want {
			t.Errorf("%s: chose %v, want %v", test.what, got, test.want)
		}
	}
}

// Where there is no calm, or no best variant, the choice is that of the task-aware rule of the
// same numbers, whatever is left.
func TestBudgetIsTaskAwareOutsideACalm(t *testing.T) {
	table := conformance.Fleet(0)
	rule, other := parse(t, "budget:0.01,1,1,0.08,1,1,0.5", table), parse(t, "task-aware:1,0.08,1,1,0.5", table)
	for what, view := range map[string]*fleet.View{
		"a burst":               arrivals(spent(table), 100),
		"a burst, large ones":   arrivals(fill(spent(table), 2, 9, 200), 100),
		"the best is down":      down(spent(table), 2),
		"all that is good down": down(spent(table), 1, 2),
		"nothing is up":         down(spent(table), 0, 1, 2),
	} {
		differs := false
		for task := range table.Tasks {
			r := &fleet.Request{Task: task, PromptTokens: 90}
			got, want := rule.Decide(view, r, nil), other.Decide(view, r, nil)
			if got != want {
				t.Errorf("%s, task %d: chose %d, want %d", what, task, got, want)
			}
			calm := rule.Decide(spent(table), r, nil)
			differs = differs || got != calm
		}
		if !differs {
			t.Errorf("%s: the choices are those of a calm", what)
		}
	}
}

// The best of a task is the smallest of those that are equally good, and only what is smaller
// stands in for it.
func TestBudgetWhereLargerIsNotBetter(t *testing.T) {
	table := conformance.Fleet(0)
	table.Tasks[hellaswag].Quality = []float64{0, 0, 0}
	table.Tasks[copa].Quality = []float64{0.5, 1, 0.99}
	table.Tasks[piqa].Quality = []float64{0.99, 0.95, 0.98}
	table.Tasks[openbookqa].Quality = []float64{0.96, 0.9, 1}
	rule := parse(t, "budget", table)
	for task, want := range []int{0, 1, 0, 0} {
		if got := rule.Decide(spent(table), &fleet.Request{Task: task, PromptTokens: 90}, nil); got != want {
			t.Errorf("task %d: chose %d, want %d", task, got, want)
		}
	}
}

func TestBudgetOfOneVariant(t *testing.T) {
	whole := conformance.Fleet(0)
	tasks := []fleet.Task{{Name: "task", Deadline: whole.Tasks[0].Deadline, Weight: 1, Quality: []float64{1}}}
	table, err := fleet.NewTable(tasks, whole.Variants[:1], whole.Hosts[:1], whole.Replicas[:1])
	if err != nil {
		t.Fatal(err)
	}
	m := maker(whole)
	m.Table, m.Profiles = table, m.Profiles[:1]
	rule, err := m.Parse("budget")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []*fleet.View{spent(table), spent(table, 1, 0.1), arrivals(spent(table), 1000)} {
		if got := rule.Decide(v, &fleet.Request{PromptTokens: 90}, nil); got != 0 {
			t.Errorf("chose %d", got)
		}
	}
	if got := rule.Decide(down(spent(table), 0), &fleet.Request{}, nil); got != -1 {
		t.Errorf("chose %d, which is down", got)
	}
}
