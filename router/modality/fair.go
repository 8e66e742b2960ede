package modality

import (
	"cmp"
	"math"
	"slices"
)

// shares divide a worker that cannot answer all jobs in time between tenants. A plan drops jobs in the
// order of their deadlines, in which those of a tenant with many would leave others none. So where a plan
// drops jobs of several tenants, tenants take turns (start-time fair queueing): the next job is that of
// the tenant that has been given least, until there is as much work as the plan could do, and what is
// over is set aside.
type shares struct {
	on    bool               // a tenant is named: without one all jobs are of the same
	given map[string]float64 // work of the tenants that have been given more than turn
	turn  float64            // what a tenant has been given at least that comes back
}

// demand is what a tenant wants of a worker.
type demand struct {
	tenant string
	given  float64
	jobs   []int // in the order of their deadlines
}

// next plans what waits, and commits the first job of the plan, as commit with shares of tenants.
func (w *Worker) next(now float64) (c *Commit, dropped []*Entry) {
	plan, jobs := w.Plan(now)
	if !w.shares.on {
		return w.commit()
	}
	var lost, aside []*Entry
	if demands := w.demands(plan, jobs); len(demands) > 1 {
		for _, i := range plan.Dropped {
			lost = append(lost, w.waiting[i])
		}
		if aside = w.setAside(demands, plan, jobs); len(aside) > 0 {
			w.Plan(now)
		}
	}
	c, dropped = w.commit()
	for _, x := range aside { // dropped, unless the first plan has kept it
		if slices.Contains(lost, x) {
			dropped = append(dropped, x)
		} else {
			w.waiting = append(w.waiting, x)
		}
	}
	if c != nil {
		w.give(c.Tenant, w.least(&c.Job))
	}
	return c, dropped
}

// least is how long the job takes by the fastest strategy that meets its floor.
func (w *Worker) least(j *Job) float64 {
	first, ok := w.table.fastest(j)
	if !ok {
		return math.Inf(1)
	}
	return w.table.front(j)[first].Cost
}

// demands are those of the tenants, in the order in which their jobs came, to the time until the last job
// that the plan drops is due. There are none if the plan drops no job that could be answered. Jobs that are
// late however soon they are begun demand nothing.
func (w *Worker) demands(plan *Plan, jobs []Job) (demands []demand) {
	last := math.Inf(-1)
	for _, i := range plan.Dropped {
		if w.least(&jobs[i]) <= jobs[i].Deadline {
			last = max(last, jobs[i].Deadline)
		}
	}
	for i := range jobs {
		if jobs[i].Deadline > last || w.least(&jobs[i]) > jobs[i].Deadline {
			continue
		}
		tenant := w.waiting[i].Tenant
		at := slices.IndexFunc(demands, func(c demand) bool { return c.tenant == tenant })
		if at < 0 {
			at = len(demands)
			demands = append(demands, demand{tenant: tenant, given: w.shares.of(tenant)})
		}
		demands[at].jobs = append(demands[at].jobs, i)
	}
	for _, d := range demands {
		slices.SortStableFunc(d.jobs, func(a, b int) int { return cmp.Compare(jobs[a].Deadline, jobs[b].Deadline) })
	}
	return demands
}

// setAside takes the jobs out of those that wait that are beyond the tenants' shares.
func (w *Worker) setAside(demands []demand, plan *Plan, jobs []Job) (aside []*Entry) {
	room, over := 0.0, map[*Entry]bool{}
	for _, d := range demands {
		for _, i := range d.jobs {
			over[w.waiting[i]] = true
		}
	}
	for _, s := range plan.Steps {
		if over[w.waiting[s.Job]] {
			room += w.least(&jobs[s.Job])
		}
	}
	for {
		var next *demand
		for k := range demands {
			if d := &demands[k]; len(d.jobs) > 0 && (next == nil || d.given < next.given) {
				next = d
			}
		}
		if next == nil {
			break
		}
		i := next.jobs[0]
		work := w.least(&jobs[i])
		if room -= work; room < -1e-9 {
			break
		}
		next.given, next.jobs = next.given+work, next.jobs[1:]
		delete(over, w.waiting[i])
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(x *Entry) bool {
		if over[x] {
			aside = append(aside, x)
		}
		return over[x]
	})
	return aside
}

// of is what a tenant has been given.
func (s *shares) of(tenant string) float64 { return max(s.turn, s.given[tenant]) }

// give counts work that a tenant is given, of those whose jobs wait or are begun now.
func (w *Worker) give(tenant string, work float64) {
	s := &w.shares
	turn := s.of(tenant)
	for _, x := range w.waiting {
		turn = min(turn, s.of(x.Tenant))
	}
	if s.given == nil {
		s.given = map[string]float64{}
	}
	s.given[tenant] = s.of(tenant) + work
	s.turn = turn
	for name, given := range s.given { // what is no more than the turn need not be known
		if given <= turn {
			delete(s.given, name)
		}
	}
}
