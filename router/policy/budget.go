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
	budget, calm float64   // s · 20, c
	best, next   []int     // variant by task; next is −1 if there is none
	cost         []float64 // of the next, by task, as a share of the peak
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
		best, next := -1, -1 // the smaller one of equals
		quality := m.Table.Tasks[i].Quality
		for v := range quality {
			if best < 0 || quality[v] > quality[best] {
				best = v
			}
		}
		for v := range best {
			if next < 0 || quality[v] > quality[next] {
				next = v
			}
		}
		p.best, p.next, p.cost = append(p.best, best), append(p.next, next), append(p.cost, 0)
		if next >= 0 && quality[best] > 0 {
			p.cost[i] = 1 - quality[next]/quality[best]
		}
	}
	return p, nil
}

// Decide implements router.Policy.
func (p *Budget) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	best, next := p.best[r.Task], p.next[r.Task]
	if v.RecentRate()*p.demand[r.Task][best] > p.calm || !v.VariantAvailable(best) || p.misses(v, r, best) {
		return p.TaskAware.Decide(v, r, scratch)
	}
	if next >= 0 && v.VariantAvailable(next) && p.spent(v)+p.cost[r.Task] <= p.budget {
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
