package failover

import (
	"cmp"
	"math"
	"slices"
)

// scratch is memory of sums.
type scratch struct {
	total  []float64      // capacity of all hosts, by resource
	models map[string]int // their numbers
	model  [][]int        // by application and variant, the model's number; −1 where it has none
	seen   []int          // by model, the sum in which it was counted last
	sum    int
	peak   []float64 // by application, in the sum under way
}

func (t *scratch) prepare(p *Problem) {
	t.total = make([]float64, len(p.Resources))
	for i := range p.Hosts {
		for r, x := range p.Capacity[i] {
			t.total[r] += x
		}
	}
	if t.models == nil {
		t.models = map[string]int{}
	}
	for i := len(t.model); i < len(p.Applications); i++ {
		var list []int
		for v := range p.Applications[i].Variants {
			name := p.Applications[i].Variants[v].Model
			if name == "" {
				list = append(list, -1)
				continue
			}
			if _, known := t.models[name]; !known {
				t.models[name] = len(t.models)
				t.seen = append(t.seen, 0)
			}
			list = append(list, t.models[name])
		}
		t.model, t.peak = append(t.model, list), append(t.peak, 0)
	}
}

// size is the share of all capacity that the demand takes, of the resource of which it takes
// most.
func (t *scratch) size(demand []float64) (most float64) {
	for r, d := range demand {
		if t.total[r] > 0 {
			most = max(most, d/t.total[r])
		} else if d > 0 {
			most = math.Inf(1)
		}
	}
	return most
}

// sums writes into the list what the host's assignments take of which it holds, by resource.
// Models that an earlier call has counted are not counted again, unless afresh is set.
func (c *Controller) sums(into []float64, host int, afresh bool, holds func(*assignment) bool) {
	clear(into)
	t := &c.scratch
	if afresh {
		t.sum++
	}
	for _, x := range c.on[host] {
		if !holds(x) {
			continue
		}
		if m := t.model[x.App][x.Variant]; c.problem.Shared && m >= 0 {
			if t.seen[m] == t.sum {
				continue
			}
			t.seen[m] = t.sum
		}
		into[0] += c.demand(x)[0]
	}
	for r := 1; r < len(into); r++ {
		for _, x := range c.on[host] {
			if d := c.demand(x)[r]; holds(x) && d > t.peak[x.App] {
				into[r] += d - t.peak[x.App]
				t.peak[x.App] = d
			}
		}
		for _, x := range c.on[host] {
			t.peak[x.App] = 0
		}
	}
}

func (c *Controller) demand(x *assignment) []float64 { return c.problem.Variant(x.Assignment).Demand }

// resident reports whether the assignment takes memory now.
func resident(x *assignment) bool { return x.phase != planned }

// committed reports whether room is kept for the assignment.
func (c *Controller) committed(x *assignment) bool {
	return x == c.apps[x.App].home || x.late || c.wanted(x)
}

// fits reports whether the host has room for the assignment besides what is resident, without
// one assignment.
func (c *Controller) fits(x, without *assignment) bool {
	taken := make([]float64, len(c.problem.Resources))
	c.sums(taken, x.Host, true, func(y *assignment) bool { return y == x || resident(y) && y != without })
	taken[0] += c.hosts[x.Host].others
	for r, d := range taken {
		if limit := c.problem.Capacity[x.Host][r]; d > limit*(1+slack) {
			return false
		}
	}
	return true
}

// rooms returns how much of each host backups may use in addition to what room is kept for,
// by host and resource. Those that are not kept are left out.
func (c *Controller) rooms(kept func(*assignment) bool) [][]float64 {
	list := make([][]float64, len(c.hosts))
	for i := range c.hosts {
		list[i] = c.room(i, kept)
	}
	return list
}

// room is that of one host. It is below 0 where more is kept than there may be.
func (c *Controller) room(host int, kept func(*assignment) bool) []float64 {
	capacity := c.problem.Capacity[host]
	n := len(capacity)
	sums := make([]float64, 3*n)
	primary, backup, left := sums[:n:n], sums[n:2*n:2*n], sums[2*n:]
	c.sums(primary, host, true, func(x *assignment) bool { return x == c.apps[x.App].home })
	primary[0] += c.hosts[host].others
	c.sums(backup, host, false, func(x *assignment) bool { return x != c.apps[x.App].home && kept(x) })
	for r := range capacity {
		left[r] = min(capacity[r]-primary[r], c.options.Headroom*capacity[r]) - backup[r]
	}
	return left
}

// serving reports whether the assignment answers or is to answer, or is a home.
func (c *Controller) serving(x *assignment) bool {
	a := &c.apps[x.App]
	return x == a.home || x.late || x == a.active || x == a.target || x == a.first
}

// yielded is how much room there is if backups are as small as can be.
func (c *Controller) yielded() [][]float64 {
	rooms := c.rooms(c.serving)
	for i := range c.apps {
		for _, x := range c.apps[i].backups {
			c.occupy(rooms, i, c.apps[i].sorted[0], x.Host, 1)
		}
	}
	return rooms
}

// yield makes backups on the host smaller until what room is kept for fits, the largest
// first; then, where drops is set, it gives up some, those of applications that are not
// critical first.
func (c *Controller) yield(host int, drops bool) {
	over := func() bool {
		for r, left := range c.room(host, c.committed) {
			if left < -1e-6*c.problem.Capacity[host][r] {
				return true
			}
		}
		return false
	}
	var list []*assignment
	for _, x := range c.on[host] {
		if slices.Contains(c.apps[x.App].backups, x) {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(x, y *assignment) int {
		return cmp.Compare(c.scratch.size(c.demand(y)), c.scratch.size(c.demand(x)))
	})
	for _, x := range list {
		a := &c.apps[x.App]
		if !over() {
			return
		}
		if small := a.sorted[0]; small != x.Variant {
			a.backups[slices.Index(a.backups, x)] = c.want(x.App, small, host)
			c.version++
		}
	}
	for _, critical := range []bool{false, true} {
		for _, x := range slices.Clone(c.on[host]) {
			a := &c.apps[x.App]
			if !drops || !over() {
				return
			}
			if slices.Contains(a.backups, x) && c.problem.Applications[x.App].Critical == critical {
				c.unwant(x)
				a.exposed = "its backup made room for an application whose server was lost"
				c.stepApp(StepUnprotected, x.App, a.exposed)
			}
		}
	}
}
