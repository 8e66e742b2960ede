package modality

import (
	"math"

	"gearshift/router/solve"
)

// Arrivals is how jobs come: what a plan leaves room for.
type Arrivals struct {
	// Rate is the work that comes per unit of time, if each job gets the fastest strategy
	// that meets its floor.
	Rate float64
	// Variance is that of the work that comes in a unit of time.
	Variance float64
	// Patience is the mean time from a job's arrival to its deadline.
	Patience float64
}

// Foreseeing is a [Policy] that plans for jobs to come. Foresee is called before each plan.
type Foreseeing interface {
	Policy
	Foresee(a Arrivals)
}

// scaled is the arrivals where all times are so many times as short.
func (a Arrivals) scaled(times float64) Arrivals {
	return Arrivals{a.Rate * times, a.Variance * times, a.Patience / times}
}

// Foresighted is the exact plan with room for jobs to come: the work that is expected
// within some windows, at everybody's fastest and with Caution standard deviations more, must
// be done in time as well. It has no quality to gain, so that it only holds back the jobs
// that are there. Where it cannot all be done, as much of it is as can be.
//
// A plan of the jobs at hand alone spends all their slack on quality, and is late for a
// burst that comes then.
type Foresighted struct {
	Planner
}

// NewForesighted returns the policy with a caution, in standard deviations.
func NewForesighted(t *Table, caution float64) *Foresighted {
	p := &Foresighted{Planner{queue: queue{table: t}, mode: PrefixSafe}}
	p.ahead.caution, p.ahead.on = caution, true
	return p
}

// Foresee implements [Foreseeing].
func (p *Foresighted) Foresee(a Arrivals) { p.ahead.arrivals = a }

// windows are those within which work is expected, in units of the patience.
var windows = [...]float64{0.125, 0.25, 0.5, 1, 2}

// ahead is the work to come as items of a plan.
type ahead struct {
	on       bool
	caution  float64
	arrivals Arrivals
	points   [len(windows)]solve.Point
	items    []solve.Item // of the plan without them; likewise below
	first    []int
	kept     []int
	slack    []float64 // by item, how much may come before it
}

// expect puts the work to come among the items, by deadline. An item that is there stays
// feasible.
func (p *Planner) expect() {
	a := &p.ahead
	if !(a.arrivals.Rate > 0 && a.arrivals.Patience > 0) {
		return
	}
	a.items, a.first, a.kept = append(a.items[:0], p.items...), append(a.first[:0], p.first...), append(a.kept[:0], p.kept...)
	a.limit()
	p.items, p.first, p.kept = p.items[:0], p.first[:0], p.kept[:0]
	var fastest, added, expected float64
	window := 0
	for k := 0; k <= len(a.items); k++ {
		slack, deadline := math.Inf(1), math.Inf(1)
		if k < len(a.items) {
			slack, deadline = a.slack[k], a.items[k].Budget
		}
		for ; window < len(windows); window++ {
			length := windows[window] * a.arrivals.Patience
			budget := length + a.arrivals.Patience
			if budget >= deadline {
				break
			}
			work := a.arrivals.Rate*length + a.caution*math.Sqrt(a.arrivals.Variance*length)
			cost := max(0, min(work-expected, budget-fastest-added, slack-added))
			expected = max(expected, work)
			added += cost
			a.points[window] = solve.Point{Cost: cost}
			p.items = append(p.items, solve.Item{Front: a.points[window : window+1], Budget: max(budget, fastest+added)})
			p.first, p.kept = append(p.first, 0), append(p.kept, -1)
		}
		if k < len(a.items) {
			p.items, p.first, p.kept = append(p.items, a.items[k]), append(p.first, a.first[k]), append(p.kept, a.kept[k])
			fastest += a.items[k].Front[0].Cost
		}
	}
}

// limit works out how much may come before each item with all of them at their fastest.
func (a *ahead) limit() {
	a.slack = a.slack[:0]
	var fastest float64
	for k := range a.items {
		fastest += a.items[k].Front[0].Cost
		a.slack = append(a.slack, max(0, a.items[k].Budget-fastest))
	}
	for k := len(a.slack) - 2; k >= 0; k-- {
		a.slack[k] = min(a.slack[k], a.slack[k+1])
	}
}

// memory is the time over which arrivals are averaged, in units of the patience.
const memory = 10

// estimate is what arrivals say of those to come: averages that fade.
type estimate struct {
	last                   float64 // time of the last arrival
	work, square, patience float64
	any                    bool
}

// add takes in a job that comes now, its work at the fastest, and its time to the deadline.
func (e *estimate) add(now, work, patience float64) {
	if !e.any {
		*e = estimate{last: now, patience: patience, any: true}
	}
	e.patience += 0.05 * (patience - e.patience)
	e.fade(now)
	span := memory * max(e.patience, 1e-9)
	e.work += work / span
	e.square += work * work / span
}

func (e *estimate) fade(now float64) {
	keep := math.Exp(-max(0, now-e.last) / (memory * max(e.patience, 1e-9)))
	e.work, e.square, e.last = e.work*keep, e.square*keep, now
}

// at is the estimate now.
func (e *estimate) at(now float64) Arrivals {
	if !e.any {
		return Arrivals{}
	}
	e.fade(now)
	return Arrivals{Rate: e.work, Variance: e.square, Patience: e.patience}
}
