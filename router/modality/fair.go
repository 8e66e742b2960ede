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

// next plans what waits, and commits the first job of the plan, as [Dispatcher.Next] with shares of
// tenants. It returns the IDs of the jobs that are dropped.
func (w *Worker) next(now float64) (next Committed, dropped []string, ok bool) {
	plan, jobs := w.Plan(now)
	if !w.shares.on {
		next, gone, ok := w.Commit()
		return next, ids(gone), ok
	}
	var lost, aside []Job
	if demands := w.demands(plan, jobs); len(demands) > 1 {
		for _, i := range plan.Dropped {
			lost = append(lost, w.waiting[i])
		}
		if aside = w.setAside(demands, plan, jobs); len(aside) > 0 {
			w.Plan(now)
		}
	}
	next, gone, ok := w.Commit()
	dropped = ids(gone)
	for _, j := range aside { // dropped, unless the first plan has kept it
		if slices.ContainsFunc(lost, func(l Job) bool { return l.ID == j.ID }) {
			dropped = append(dropped, j.ID)
		} else {
			w.waiting = append(w.waiting, j)
		}
	}
	if ok {
		w.give(w.entries[next.Job.ID].Tenant, w.least(&next.Job))
	}
	return next, dropped, ok
}

func ids(jobs []Job) (list []string) {
	for i := range jobs {
		list = append(list, jobs[i].ID)
	}
	return list
}

// least is how long the job takes by the fastest strategy that meets its floor.
func (d *Dispatcher) least(j *Job) float64 {
	first, ok := d.table.fastest(j)
	if !ok {
		return math.Inf(1)
	}
	return d.table.front(j)[first].Cost
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
		tenant := w.entries[jobs[i].ID].Tenant
		at := slices.IndexFunc(demands, func(c demand) bool { return c.tenant == tenant })
		if at < 0 {
			at = len(demands)
			demands = append(demands, demand{tenant: tenant, given: w.shares.of(tenant)})
		}
		demands[at].jobs = append(demands[at].jobs, i)
	}
	for _, c := range demands {
		slices.SortStableFunc(c.jobs, func(a, b int) int { return cmp.Compare(jobs[a].Deadline, jobs[b].Deadline) })
	}
	return demands
}

// setAside takes the jobs out of those that wait that are beyond the tenants' shares.
func (w *Worker) setAside(demands []demand, plan *Plan, jobs []Job) (aside []Job) {
	room := 0.0
	demanded, shared := map[string]bool{}, map[string]bool{}
	for _, c := range demands {
		for _, i := range c.jobs {
			demanded[jobs[i].ID] = true
		}
	}
	for _, s := range plan.Steps {
		if j := &jobs[s.Job]; demanded[j.ID] {
			room += w.least(j)
		}
	}
	for {
		at := -1
		for k := range demands {
			if len(demands[k].jobs) > 0 && (at < 0 || demands[k].given < demands[at].given) {
				at = k
			}
		}
		if at < 0 {
			break
		}
		c := &demands[at]
		j := &jobs[c.jobs[0]]
		if room -= w.least(j); room < -1e-9 {
			break
		}
		c.given, c.jobs, shared[j.ID] = c.given+w.least(j), c.jobs[1:], true
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(j Job) bool {
		over := demanded[j.ID] && !shared[j.ID]
		if over {
			aside = append(aside, j)
		}
		return over
	})
	return aside
}

// of is what a tenant has been given.
func (s *shares) of(tenant string) float64 { return max(s.turn, s.given[tenant]) }

// give counts work that a tenant is given, of those whose jobs wait or are begun now.
func (w *Worker) give(tenant string, work float64) {
	s := &w.shares
	turn := s.of(tenant)
	for i := range w.waiting {
		turn = min(turn, s.of(w.entries[w.waiting[i].ID].Tenant))
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
