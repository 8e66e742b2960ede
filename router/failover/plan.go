package failover

import (
	"slices"

	"gearshift/router/placement"
)

// ask is an application for which an instance is planned.
type ask struct {
	app      int
	variants []int // that may be used, of its own
	// apart is the instance from whose server, and site where that is asked for, the new one
	// is kept away; nil if there is none.
	apart    *instance
	excluded []int // further servers
}

// spot is where an application is to run: −1 nowhere, for a reason.
type spot struct {
	variant, server int
	// first is the variant that is loaded before, and where; −1 if there is none.
	first, firstServer int
	why                func() string
}

// algorithm makes a plan of a problem.
type algorithm func(*placement.Problem) *placement.Plan

func ours(p *placement.Problem) *placement.Plan       { return p.Plan(p.AtOnce()) }
func algorithm1(p *placement.Problem) *placement.Plan { return p.Algorithm1(false) }

// problem poses the asks to the planner, on servers that are up, with so much room on each beside the instances that
// are kept. It returns the servers, too.
func (c *Controller) problem(asks []ask, rooms [][]float64, alpha float64, kept func(*instance) bool) (p *placement.Problem, use []int) {
	p = &placement.Problem{Resources: c.system.Resources, Alpha: alpha, SiteIndependent: c.options.SiteIndependent, Shared: c.system.Shared}
	for i := range c.servers {
		if c.servers[i].condition == Up {
			s := &c.system.Servers[i]
			use = append(use, i)
			free := make([]float64, len(rooms[i]))
			for r, x := range rooms[i] {
				free[r] = max(0, x)
			}
			p.Bins = append(p.Bins, placement.Bin{Name: s.Name, Site: s.Site, Free: free, Loaded: c.models(i, kept)})
		}
	}
	for k := range asks {
		p.Items = append(p.Items, c.formulate(&asks[k]))
	}
	return p, use
}

// solve plans the asks with so much room on each server.
func (c *Controller) solve(asks []ask, rooms [][]float64, alpha float64, how algorithm) []spot {
	p, use := c.problem(asks, rooms, alpha, c.committed)
	x := how(p)
	reason := p.Reasons(x)
	list := make([]spot, len(asks))
	for k, s := range x.Spots {
		list[k] = spot{variant: -1, server: -1, first: -1, firstServer: -1, why: func() string { return reason(k) + c.failures(asks[k].app) }}
		if s.Server >= 0 {
			list[k].variant, list[k].server = asks[k].variants[s.Variant], use[s.Server]
		}
	}
	return list
}

// models lists the models of the server's instances that are kept, where their memory is shared.
func (c *Controller) models(server int, kept func(*instance) bool) (list []string) {
	if !c.system.Shared {
		return nil
	}
	for _, x := range c.on[server] {
		if m := c.apps[x.app].variants[x.variant].Model; m != "" && kept(x) {
			list = append(list, m)
		}
	}
	return list
}

// need is what the variant takes on the server besides what room is kept for.
func (c *Controller) need(app, variant, server int) []float64 {
	demand := c.system.Applications[app].Variants[variant].Demand
	if m := c.apps[app].variants[variant].Model; m != "" && slices.Contains(c.models(server, c.committed), m) {
		demand = slices.Clone(demand)
		demand[0] = 0
	}
	return demand
}

// formulate is the ask as an application of a problem.
func (c *Controller) formulate(q *ask) placement.Item {
	s := &c.system.Applications[q.app]
	a := placement.Item{Name: s.Name, Rate: s.Rate, MaxLatency: s.MaxLatency}
	if q.apart != nil {
		a.Primary, a.Site = c.system.Servers[q.apart.server].Name, c.system.Servers[q.apart.server].Site
	}
	for _, v := range q.variants {
		a.Variants = append(a.Variants, c.apps[q.app].variants[v])
	}
	if len(q.variants) == 0 { // none is in time, as the plan will say
		a.Variants = c.apps[q.app].variants
	}
	for _, list := range [][]int{s.Excluded, q.excluded} {
		for _, x := range list {
			a.Excluded = append(a.Excluded, c.system.Servers[x].Name)
		}
	}
	for _, b := range c.apps[q.app].blocked {
		if b.until > c.now {
			a.Excluded = append(a.Excluded, c.system.Servers[b.server].Name)
		}
	}
	return a
}

// recoveryPlan plans where the applications are loaded, by the policy.
func (c *Controller) recoveryPlan(list []int) []spot {
	switch c.options.Policy {
	case FullWarm:
		return c.none(list, "the policy loads nothing after a loss")
	case FullCold, FullWarmK:
		return c.inOrder(list, func(i int) []int { return []int{c.apps[i].full} }, algorithm1)
	case FailLite:
		spots := c.inOrder(list, func(i int) []int { return c.apps[i].sorted }, algorithm1)
		for k, i := range list {
			if spots[k].server >= 0 {
				spots[k].first, spots[k].firstServer = c.apps[i].sorted[0], spots[k].server
			}
		}
		return spots
	}
	return c.byGain(list)
}

func (c *Controller) none(list []int, why string) []spot {
	spots := make([]spot, len(list))
	for k := range spots {
		spots[k] = spot{-1, -1, -1, -1, func() string { return why }}
	}
	return spots
}

// inOrder plans critical applications before the others.
func (c *Controller) inOrder(list []int, variants func(app int) []int, how algorithm) []spot {
	var asks []ask
	var from []int
	for _, critical := range []bool{true, false} {
		for k, i := range list {
			if c.system.Applications[i].Critical == critical {
				asks, from = append(asks, ask{app: i, variants: variants(i)}), append(from, k)
			}
		}
	}
	spots := make([]spot, len(list))
	for k, s := range c.solve(asks, c.rooms(c.committed), 0, how) {
		spots[from[k]] = s
	}
	return spots
}

// byGain plans as our policy does: as many applications as possible, critical ones first
// where not all find room, and then by gain. Those that find none get the room that backups of
// others leave as they become smaller, or are given up. What is loaded before has room in
// addition.
func (c *Controller) byGain(list []int) []spot {
	rooms := c.rooms(c.committed)
	asks := make([]ask, len(list))
	for k, i := range list {
		asks[k] = ask{app: i, variants: c.apps[i].sorted}
	}
	spots := c.solve(asks, rooms, 0, ours)
	if missing(spots) {
		spots = c.criticalFirst(asks, rooms, spots)
	}
	for k := range spots {
		c.occupy(rooms, asks[k].app, spots[k].variant, spots[k].server, 1)
	}
	for k := range spots {
		if spots[k].server >= 0 {
			c.before(asks[k].app, &spots[k], rooms)
		}
	}
	if missing(spots) {
		c.displace(asks, spots, c.yielded(), false)
	}
	if missing(spots) {
		c.displace(asks, spots, c.rooms(c.serving), true)
	}
	return spots
}

func missing(spots []spot) bool {
	return slices.ContainsFunc(spots, func(s spot) bool { return s.server < 0 })
}

// displace plans the smallest variants of those that found no room, with the rooms that there
// are without some of the backups, which then make room for them.
func (c *Controller) displace(asks []ask, spots []spot, rooms [][]float64, drops bool) {
	var some []ask
	var which []int
	for k, s := range spots {
		if s.server >= 0 {
			c.occupy(rooms, asks[k].app, s.variant, s.server, 1)
			if s.first >= 0 {
				c.occupy(rooms, asks[k].app, s.first, s.firstServer, 1)
			}
		} else if q := asks[k]; len(q.variants) > 0 {
			q.variants = q.variants[:1]
			some, which = append(some, q), append(which, k)
		}
	}
	if len(some) == 0 {
		return
	}
	for k, s := range c.solve(some, rooms, 0, ours) {
		if s.server >= 0 {
			spots[which[k]] = s
			c.crowded = append(c.crowded, crowd{s.server, drops})
		}
	}
}

// criticalFirst plans the critical applications by themselves, and the others with what is
// left, unless the plan has room for all that are critical.
func (c *Controller) criticalFirst(asks []ask, rooms [][]float64, spots []spot) []spot {
	critical := func(k int) bool { return c.system.Applications[asks[k].app].Critical }
	missing := false
	for k, s := range spots {
		missing = missing || s.server < 0 && critical(k)
	}
	if !missing {
		return spots
	}
	left := make([][]float64, len(rooms))
	for i := range rooms {
		left[i] = slices.Clone(rooms[i])
	}
	result := make([]spot, len(asks))
	for _, first := range []bool{true, false} {
		var some []ask
		var from []int
		for k := range asks {
			if critical(k) == first {
				some, from = append(some, asks[k]), append(from, k)
			}
		}
		for k, s := range c.solve(some, left, 0, ours) {
			result[from[k]] = s
			c.occupy(left, some[k].app, s.variant, s.server, 1)
		}
	}
	return result
}

// occupy takes room for the variant so many times; a server of −1 is nowhere.
func (c *Controller) occupy(rooms [][]float64, app, variant, server int, times float64) {
	if server < 0 {
		return
	}
	for r, d := range c.system.Applications[app].Variants[variant].Demand {
		rooms[server][r] -= times * d
	}
}

// before finds room for the smallest variant next to the chosen one, on its server or on
// another. Where there is none, the smallest is all that is loaded for now.
func (c *Controller) before(app int, s *spot, rooms [][]float64) {
	small := c.apps[app].sorted[0]
	if small == s.variant {
		return
	}
	at := -1
	if within(c.need(app, small, s.server), rooms[s.server]) {
		at = s.server
	}
	for i := range rooms {
		if at < 0 && c.allowed(app, i) && within(c.need(app, small, i), rooms[i]) {
			at = i
		}
	}
	if at >= 0 {
		s.first, s.firstServer = small, at
		c.occupy(rooms, app, small, at, 1)
		return
	}
	c.occupy(rooms, app, s.variant, s.server, -1)
	s.variant = small
	c.occupy(rooms, app, s.variant, s.server, 1)
}

func within(demand, room []float64) bool {
	for r, d := range demand {
		if d > room[r]+slack*(1+d) {
			return false
		}
	}
	return true
}

// allowed reports whether the application may be loaded on the server.
func (c *Controller) allowed(app, server int) bool {
	return c.usable(app, server) && !slices.Contains(c.system.Applications[app].Excluded, server)
}
