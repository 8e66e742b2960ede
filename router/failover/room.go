package failover

import (
	"cmp"
	"math"
	"slices"
)

// scratch is memory of sums.
type scratch struct {
	total  []float64      // capacity of all servers, by resource
	models map[string]int // their numbers
	model  [][]int        // by application and variant, the model's number; −1 where it has none
	seen   []int          // by model, the sum in which it was counted last
	sum    int
	peak   []float64 // by application, in the sum under way
}

func (t *scratch) prepare(s *System) {
	t.total = make([]float64, len(s.Resources))
	for i := range s.Servers {
		for r, x := range s.Servers[i].Capacity {
			t.total[r] += x
		}
	}
	if t.models == nil {
		t.models = map[string]int{}
	}
	for i := len(t.model); i < len(s.Applications); i++ {
		var list []int
		for v := range s.Applications[i].Variants {
			name := s.Applications[i].Variants[v].Model
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

// sums writes into the list what the server's instances take of which it holds, by resource.
// Models that an earlier call has counted are not counted again, unless afresh is set.
func (c *Controller) sums(into []float64, server int, afresh bool, holds func(*instance) bool) {
	clear(into)
	t := &c.scratch
	if afresh {
		t.sum++
	}
	for _, x := range c.on[server] {
		if !holds(x) {
			continue
		}
		if m := t.model[x.app][x.variant]; c.system.Shared && m >= 0 {
			if t.seen[m] == t.sum {
				continue
			}
			t.seen[m] = t.sum
		}
		into[0] += c.demand(x)[0]
	}
	for r := 1; r < len(into); r++ {
		for _, x := range c.on[server] {
			if d := c.demand(x)[r]; holds(x) && d > t.peak[x.app] {
				into[r] += d - t.peak[x.app]
				t.peak[x.app] = d
			}
		}
		for _, x := range c.on[server] {
			t.peak[x.app] = 0
		}
	}
}

func (c *Controller) demand(x *instance) []float64 {
	return c.system.Applications[x.app].Variants[x.variant].Demand
}

// resident reports whether the instance takes memory now.
func resident(x *instance) bool { return x.phase != planned }

// committed reports whether room is kept for the instance.
func (c *Controller) committed(x *instance) bool {
	return x == c.apps[x.app].home || x.late || c.wanted(x)
}

// fits reports whether the server has room for the instance besides what is resident, without
// one instance.
func (c *Controller) fits(x, without *instance) bool {
	taken := make([]float64, len(c.system.Resources))
	c.sums(taken, x.server, true, func(y *instance) bool { return y == x || resident(y) && y != without })
	taken[0] += c.servers[x.server].others
	for r, d := range taken {
		if limit := c.system.Servers[x.server].Capacity[r]; d > limit*(1+slack) {
			return false
		}
	}
	return true
}

// rooms returns how much of each server backups may use in addition to what room is kept for,
// by server and resource. Those that are not kept are left out.
func (c *Controller) rooms(kept func(*instance) bool) [][]float64 {
	list := make([][]float64, len(c.servers))
	for i := range c.servers {
		list[i] = c.room(i, kept)
	}
	return list
}

// room is that of one server. It is below 0 where more is kept than there may be.
func (c *Controller) room(server int, kept func(*instance) bool) []float64 {
	capacity := c.system.Servers[server].Capacity
	n := len(capacity)
	sums := make([]float64, 3*n)
	primary, backup, left := sums[:n:n], sums[n:2*n:2*n], sums[2*n:]
	c.sums(primary, server, true, func(x *instance) bool { return x == c.apps[x.app].home })
	primary[0] += c.servers[server].others
	c.sums(backup, server, false, func(x *instance) bool { return x != c.apps[x.app].home && kept(x) })
	for r := range capacity {
		left[r] = min(capacity[r]-primary[r], c.options.Headroom*capacity[r]) - backup[r]
	}
	return left
}

// serving reports whether the instance answers or is to answer, or is a home.
func (c *Controller) serving(x *instance) bool {
	a := &c.apps[x.app]
	return x == a.home || x.late || x == a.active || x == a.target || x == a.first
}

// yielded is how much room there is if backups are as small as can be.
func (c *Controller) yielded() [][]float64 {
	rooms := c.rooms(c.serving)
	for i := range c.apps {
		for _, x := range c.apps[i].backups {
			c.occupy(rooms, i, c.apps[i].sorted[0], x.server, 1)
		}
	}
	return rooms
}

// yield makes backups on the server smaller until what room is kept for fits, the largest
// first; then, where drops is set, it gives up some, those of applications that are not
// critical first.
func (c *Controller) yield(server int, drops bool) {
	over := func() bool {
		for r, left := range c.room(server, c.committed) {
			if left < -1e-6*c.system.Servers[server].Capacity[r] {
				return true
			}
		}
		return false
	}
	var list []*instance
	for _, x := range c.on[server] {
		if slices.Contains(c.apps[x.app].backups, x) {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(x, y *instance) int {
		return cmp.Compare(c.scratch.size(c.demand(y)), c.scratch.size(c.demand(x)))
	})
	for _, x := range list {
		a := &c.apps[x.app]
		if !over() {
			return
		}
		if small := a.sorted[0]; small != x.variant {
			a.backups[slices.Index(a.backups, x)] = c.want(x.app, small, server)
			c.version++
		}
	}
	for _, critical := range []bool{false, true} {
		for _, x := range slices.Clone(c.on[server]) {
			a := &c.apps[x.app]
			if !drops || !over() {
				return
			}
			if slices.Contains(a.backups, x) && c.system.Applications[x.app].Critical == critical {
				c.unwant(x)
				a.exposed = "its backup made room for an application whose server was lost"
				c.stepApp(StepUnprotected, x.app, a.exposed)
			}
		}
	}
}
