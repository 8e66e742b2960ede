package policy

import (
	"gearshift/router/fleet"
)

// budgetWindow is the number of requests in a window of the paper's tables (LBE-22).
const budgetWindow = 20

// Budget keeps windows of requests near their peak. In a calm, a task gets the best variant
// for it unless the next best costs less than what is left of a budget of
//
//	s · 20
//
// of the window that the request ends: then the smaller one answers, which makes room for the
// others and so fewer late ones. A small loss in quality is paid for not losing a whole
// request, of which one is more than most budgets. What alone is more than the budget does
// not count: its windows are lost already.
//
// There is a calm while all arrivals together would take at most the share c of the time of
// the best variant (see [LeastWork]), and that is not forecast to miss a deadline to the first
// token or to the end. Else the choice is that of [TaskAware].
type Budget struct {
	*TaskAware
	budget, calm float64 // s · 20, c
	tasks        []step  // without a prediction
	named
}

var budgetForm = form{
	kind: "budget", rule: "a budget policy",
	parameters: append([]parameter{
		{letter: "s", name: "share of the peak to spend", standard: 0.01, most: 1,
			grid: []float64{0.005, 0.01, 0.015, 0.02, 0.03, 0.04}},
		{letter: "c", name: "calm", standard: 1, most: 100,
			grid: []float64{0.5, 0.75, 1, 1.5, 2.5}},
	}, taskAwareForm.parameters...),
}

func newBudget(m *Maker, values []float64) (Rule, error) {
	rule, err := newTaskAware(m, values[2:])
	if err != nil {
		return nil, err
	}
	p := &Budget{TaskAware: rule.(*TaskAware), budget: values[0] * budgetWindow, calm: values[1], named: named(budgetForm.name(values))}
	for i := range m.Table.Tasks {
		p.tasks = append(p.tasks, stepDown(m.Table, &fleet.Request{Task: i}))
	}
	return p, nil
}

// step is from the best variant for a request to the next best of the smaller ones.
type step struct {
	best, next int     // variants; next is −1 if there is none
	cost       float64 // of the next, as a share of the best's quality
}

// stepDown returns the step for the request. Of equals it takes the smaller ones.
func stepDown(t *fleet.Table, r *fleet.Request) step {
	x := step{best: -1, next: -1}
	for v := range t.Variants {
		if x.best < 0 || t.Quality(r, v) > t.Quality(r, x.best) {
			x.best = v
		}
	}
	for v := range x.best {
		if x.next < 0 || t.Quality(r, v) > t.Quality(r, x.next) {
			x.next = v
		}
	}
	if most := t.Quality(r, x.best); x.next >= 0 && most > 0 {
		x.cost = 1 - t.Quality(r, x.next)/most
	}
	return x
}

// Decide implements router.Policy.
func (p *Budget) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	x := p.tasks[r.Task]
	if r.Predicted.Known {
		x = stepDown(v.Table, r)
	}
	best, next := x.best, x.next
	if v.RecentRate()*p.demand[r.Task][best] > p.calm || !v.VariantAvailable(best) || p.misses(v, r, best) {
		return p.TaskAware.Decide(v, r, scratch)
	}
	if next >= 0 && v.VariantAvailable(next) && p.spent(v)+x.cost <= p.budget {
		return next
	}
	return best
}

// misses reports whether the variant is forecast to miss a deadline to the first token or to
// the end wherever it is available.
func (p *Budget) misses(v *fleet.View, r *fleet.Request, variant int) bool {
	if d := v.Table.Tasks[r.Task].Deadlines(r); !d.More() {
		return false
	}
	for _, i := range v.ReplicasOf(variant) {
		if v.Available(i) && p.strain(v, r, i, p.neighbours(v, i, v.RecentRate())) <= 1 {
			return false
		}
	}
	return true
}

// spent is what the requests of the window before this one fell short by together.
func (p *Budget) spent(v *fleet.View) (sum float64) {
	for _, x := range v.Recent[:budgetWindow-1] {
		if float64(x) <= p.budget {
			sum += float64(x)
		}
	}
	return sum
}
