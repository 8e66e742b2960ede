package modality

import (
	"math"

	"gearshift/router/solve"
)

// The actions of a learned policy. Each is a strategy for the job that the plan runs next,
// except the last, which drops that job. ActPlan is the advised one: the strategy of the
// plan itself. Those from ActFastest on are steps of a quarter of the time between the
// fastest strategy that meets the job's floor and the best.
const (
	ActPlan    = 0
	ActFastest = 1
	ActBest    = ActFastest + steps
	ActDrop    = ActBest + 1
	Actions    = ActDrop + 1

	steps = 4
)

// Observed is the length of an [Chooser.Observe] observation: the advice, one number for each
// action, and what is known of the load, the queue and the job that runs next.
const Observed = Actions + 27

// ObservationVersion is that of what [Chooser.Observe] returns.
const ObservationVersion = 2

// Chooser makes of a plan what a learned policy observes, and of its action what the worker
// runs. All numbers of an observation are relative: times to the jobs' patience, work to
// what a worker can do, and qualities to those of the table. So one policy serves models of
// any speed.
//
// It plans with foresight. It is not safe for concurrent use.
type Chooser struct {
	*Foresighted
	fastest []float64 // what the plan's jobs take at their fastest, in order
	x       [Observed]float32
}

// NewChooser makes a chooser whose plans have these cautions, which are valid.
func NewChooser(t *Table, c Cautions) *Chooser {
	return &Chooser{Foresighted: NewCautious(t, c)}
}

// Observe returns what is known at the plan of the jobs, which has at least one step. The
// result is valid until the next call.
func (c *Chooser) Observe(free float64, jobs []Job, plan *Plan) []float32 {
	w := writer{to: c.x[:0]}
	c.measure(jobs, plan)
	a, patience := &c.ahead.arrivals, c.patience(free, jobs, plan)
	for action := range Actions {
		w.add(indicator(action == ActPlan), 1)
	}
	w.add(a.Rate, 3)
	w.add(a.Recent, 3)
	w.add(math.Sqrt(a.Variance*patience)/patience, 3)
	w.add(a.Spread, 2)
	w.add(c.cautions.At(a.Conditions())/4, 2)
	w.add(math.Log1p(float64(len(jobs)))/3, 2)
	c.observeQueue(&w, free, patience, jobs, plan)
	c.observeNext(&w, free, patience, jobs, plan)
	return w.to
}

// measure works out what the plan's jobs take at their fastest.
func (c *Chooser) measure(jobs []Job, plan *Plan) {
	c.fastest = c.fastest[:0]
	for _, s := range plan.Steps {
		j := &jobs[s.Job]
		first, _ := c.table.fastest(j)
		c.fastest = append(c.fastest, c.table.front(j)[first].Cost)
	}
}

// patience is the unit of times: the mean time to a job's deadline, or if no arrival has been
// seen, that of the next job.
func (c *Chooser) patience(free float64, jobs []Job, plan *Plan) float64 {
	p := c.ahead.arrivals.Patience
	if !(p > 0) {
		p = jobs[plan.Steps[0].Job].Deadline - free
	}
	return max(p, 1e-9)
}

// observeQueue writes how much work there is, and how much room before its deadlines.
func (c *Chooser) observeQueue(w *writer, free, patience float64, jobs []Job, plan *Plan) {
	var fastest, planned float64
	slack, room := math.Inf(1), math.Inf(1)
	due := [...]float64{0.25, 0.5, 1}
	var work [len(due)]float64
	for k, s := range plan.Steps {
		left := jobs[s.Job].Deadline - free
		fastest += c.fastest[k]
		planned = s.Finish - free
		slack = min(slack, left-planned)
		if k > 0 {
			room = min(room, left-fastest)
		}
		for i, share := range due {
			if left <= share*patience {
				work[i] += c.fastest[k]
			}
		}
	}
	first := jobs[plan.Steps[0].Job].Deadline - free - c.fastest[0]
	w.add(fastest/patience, 4)
	w.add(planned/patience, 4)
	w.add(slack/patience, 2)
	w.add(min(room, 2*patience)/patience, 2)
	w.add(first/patience, 2)
	for i := range work {
		w.add(work[i]/patience, 3)
	}
}

// observeNext writes what the strategies of the job that runs next cost, and what they are
// worth.
func (c *Chooser) observeNext(w *writer, free, patience float64, jobs []Job, plan *Plan) {
	s := plan.Steps[0]
	j := &jobs[s.Job]
	front, size := c.table.front(j), float64(j.Size)
	low, high := c.table.of(j).extent()
	span := max(high-low, 1e-9)
	fast := front[c.level(j, 0)]
	w.add((j.Deadline-free)/patience, 2)
	w.add(size/float64(c.table.Sizes()), 1)
	w.add((j.MinQuality-low)/span, 1)
	w.add(fast.Cost/patience, 2)
	w.add(front[s.Strategy].Cost/patience, 2)
	w.add(front[len(front)-1].Cost/patience, 2)
	w.add((front[s.Strategy].Value-fast.Value)/size/span, 1)
	for k := 1; k <= steps; k++ {
		w.add((front[c.level(j, k)].Value-fast.Value)/size/span, 1)
	}
	var mean float64
	for _, cost := range c.fastest {
		mean += cost / float64(len(c.fastest))
	}
	w.add(fast.Cost/max(mean, 1e-9), 3)
	w.add(indicator(c.ahead.arrivals.Rate > 0), 1)
}

// level is the job's strategy at so many steps from its fastest to its best.
func (c *Chooser) level(j *Job, k int) int {
	front := c.table.front(j)
	first, ok := c.table.fastest(j)
	if !ok {
		return len(front) - 1
	}
	least, most := front[first].Cost, front[len(front)-1].Cost
	limit := least + float64(k)/steps*(most-least) + solve.Tolerance
	at := first
	for at+1 < len(front) && front[at+1].Cost <= limit {
		at++
	}
	return at
}

// Take makes the plan the one of the action. A dropped job leaves the plan; what the later
// steps run stays, and their times move.
func (c *Chooser) Take(action int, jobs []Job, plan *Plan) {
	s := plan.Steps[0]
	j := &jobs[s.Job]
	front := c.table.front(j)
	before := front[s.Strategy]
	switch {
	case action == ActDrop:
		plan.Dropped = append(plan.Dropped, s.Job)
		plan.Objective -= before.Value
		plan.Steps = append(plan.Steps[:0], plan.Steps[1:]...)
		shift(plan.Steps, -before.Cost)
	case action != ActPlan:
		at := c.level(j, action-ActFastest)
		plan.Objective += front[at].Value - before.Value
		plan.Steps[0].Strategy = at
		shift(plan.Steps, front[at].Cost-before.Cost)
	}
}

func shift(list []Step, by float64) {
	for i := range list {
		list[i].Finish += by
	}
}

// extent is the lowest and the highest quality of the options that are allowed.
func (t *Table) extent() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range t.options {
		if t.allows(i) {
			low, high = min(low, t.options[i].Quality), max(high, t.options[i].Quality)
		}
	}
	return low, high
}

// writer appends numbers, each within a bound.
type writer struct{ to []float32 }

func (w *writer) add(x, most float64) {
	w.to = append(w.to, float32(max(-most, min(most, x))))
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
