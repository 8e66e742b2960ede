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
	// Largest is the work of the largest job of late.
	Largest float64
	// Full is the rate if each job gets its best strategy, and Stake how much more quality a
	// request has then, in the mean.
	Full, Stake float64
	// Recent is the rate over a tenth of the time that Rate is over.
	Recent float64
	// Spread is the standard deviation of the times that batches take, relative to what is
	// expected of them.
	Spread float64
}

// Foreseeing is a [Policy] that plans for jobs to come. Foresee is called before each plan.
type Foreseeing interface {
	Policy
	Foresee(a Arrivals)
}

// scaled is the arrivals in a unit of time that is so many times as long. Work stays as it is.
func (a Arrivals) scaled(times float64) Arrivals {
	a.Rate, a.Variance, a.Recent, a.Full, a.Patience = a.Rate*times, a.Variance*times, a.Recent*times, a.Full*times, a.Patience/times
	return a
}

// Foresighted is the exact plan with room for jobs to come: the work that is expected within
// some windows, at everybody's fastest, must be done in time as well; with it so many standard
// deviations as the caution says, and a quarter as many times the largest job, because single
// jobs can be long next to a deadline. It has no quality to gain, so that it only holds back the jobs
// that are there. Where it cannot all be done, as much of it is as can be.
//
// A plan of the jobs at hand alone spends all their slack on quality, and is late for a
// burst that comes then.
type Foresighted struct {
	Planner
	cautions Cautions
}

// Caution is that of foresight as a rule. It was chosen on training seeds of five models at
// deadlines of 0.5, 1 and 2 s, as the least with which no policy without a plan has fewer
// violations, beyond chance.
const Caution = 5

// NewForesighted returns the policy with a caution, in standard deviations.
func NewForesighted(t *Table, caution float64) *Foresighted { return NewCautious(t, Always(caution)) }

// NewCautious returns the policy with a caution that is chosen before each plan. The cautions are
// valid.
func NewCautious(t *Table, c Cautions) *Foresighted {
	p := &Foresighted{Planner: Planner{queue: queue{table: t}, mode: PrefixSafe}, cautions: c}
	p.Foresee(Arrivals{})
	return p
}

// Foresee implements [Foreseeing].
func (p *Foresighted) Foresee(a Arrivals) {
	caution := p.cautions.At(a.Conditions())
	p.ahead.arrivals, p.ahead.on, p.ahead.caution = a, caution != Unforeseeing, max(0, caution)
}

// windows are those within which work is expected, in units of the patience.
var windows = [...]float64{0.125, 0.25, 0.5, 1, 2, 4, 8}

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
			work := a.arrivals.Rate*length + a.caution*(math.Sqrt(a.arrivals.Variance*length)+a.arrivals.Largest/4)
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

// The times over which arrivals are averaged, in units of the patience.
const (
	memory = 10
	recent = 1
)

// forgetting is how much of the largest job is remembered at each that comes after it.
const forgetting = 0.999

// estimate is what arrivals say of those to come: averages that fade. They are of the time
// since the first arrival, where that is shorter than they go back.
type estimate struct {
	began, last  float64 // times of the first arrival, and of what is counted
	work, square average // of jobs, and of their squares
	latest       average
	full, stake  average // work at the best, and the quality gained by it
	requests     average
	largest      float64 // that fades slowly
	patience     float64
	any          bool
}

// come is a job that comes: its size, its time to the deadline, and what its fastest and its best
// strategy take. Stake is by how much the quality of all its requests is higher by its best.
type come struct{ size, patience, work, full, stake float64 }

// add takes in a job that comes now.
func (e *estimate) add(now float64, j come) {
	work, patience := j.work, j.patience
	if !e.any {
		*e = estimate{began: now, last: now, patience: patience, any: true}
	}
	e.patience += 0.05 * (patience - e.patience)
	e.fade(now)
	e.work.add(work, memory*e.unit())
	e.square.add(work*work, memory*e.unit())
	e.largest = max(work, forgetting*e.largest)
	e.latest.add(work, recent*e.unit())
	e.full.add(j.full, memory*e.unit())
	e.stake.add(j.stake, memory*e.unit())
	e.requests.add(j.size, memory*e.unit())
}

// unit is the patience, and above 0.
func (e *estimate) unit() float64 { return max(e.patience, 1e-9) }

func (e *estimate) fade(now float64) {
	passed := max(0, now-e.last)
	e.work.fade(passed, memory*e.unit())
	e.square.fade(passed, memory*e.unit())
	e.latest.fade(passed, recent*e.unit())
	e.full.fade(passed, memory*e.unit())
	e.stake.fade(passed, memory*e.unit())
	e.requests.fade(passed, memory*e.unit())
	e.last = now
}

// at is the estimate now.
func (e *estimate) at(now float64) Arrivals {
	if !e.any {
		return Arrivals{}
	}
	e.fade(now)
	passed := max(now-e.began, e.unit())
	return Arrivals{
		Rate:     e.work.over(passed, memory*e.unit()),
		Variance: e.square.over(passed, memory*e.unit()),
		Recent:   e.latest.over(passed, recent*e.unit()),
		Patience: e.patience,
		Largest:  e.largest,
		Full:     e.full.over(passed, memory*e.unit()),
		Stake:    float64(e.stake) / max(float64(e.requests), 1e-9),
	}
}

// average is a sum per unit of time, in which what is older counts for less: 1/e of it after
// a span.
type average float64

func (a *average) add(x, span float64)       { *a += average(x / span) }
func (a *average) fade(passed, span float64) { *a *= average(math.Exp(-passed / span)) }

// over is the average if so much time has passed since its beginning.
func (a average) over(passed, span float64) float64 { return float64(a) / (1 - math.Exp(-passed/span)) }
