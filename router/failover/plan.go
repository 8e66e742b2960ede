package failover

import (
	"slices"

	"gearshift/router/placement"
)

// ask is an application for which an assignment is planned.
type ask struct {
	app      int
	variants []int // that may be used, of its own
	// apart is the assignment from whose host, and site where that is asked for, the new one
	// is kept away; nil if there is none.
	apart    *assignment
	excluded []int // further hosts
}

// spot is where an application is to run: −1 nowhere, for a reason.
type choice struct {
	variant, host int
	// first is the variant that is loaded before, and where; −1 if there is none.
	first, firstHost int
	why              func() string
}

// algorithm makes a plan of a problem.
type algorithm func(*placement.Problem) *placement.Plan

func ours(p *placement.Problem) *placement.Plan       { return p.Plan(p.AtOnce()) }
func algorithm1(p *placement.Problem) *placement.Plan { return p.Algorithm1(false) }

// pose poses the asks to the planner, on hosts that are up, with so much room on each beside the assignments that
// are kept. It returns the hosts, too.
func (c *Controller) pose(asks []ask, rooms [][]float64, alpha float64, kept func(*assignment) bool) (p *placement.Problem, use []int) {
	p = &placement.Problem{Resources: c.problem.Resources, Alpha: alpha, SiteIndependent: c.options.SiteIndependent, Shared: c.problem.Shared}
	for i := range c.hosts {
		if c.hosts[i].condition == Up {
			h := &c.problem.Hosts[i]
			use = append(use, i)
			free := make([]float64, len(rooms[i]))
			for r, x := range rooms[i] {
				free[r] = max(0, x)
			}
			p.Bins = append(p.Bins, placement.Bin{Name: h.Name, Site: h.Site, Free: free, Loaded: c.models(i, kept)})
		}
	}
	for k := range asks {
		p.Items = append(p.Items, c.formulate(&asks[k]))
	}
	return p, use
}

// solve plans the asks with so much room on each host.
func (c *Controller) solve(asks []ask, rooms [][]float64, alpha float64, how algorithm) []choice {
	p, use := c.pose(asks, rooms, alpha, c.committed)
	x := how(p)
	reason := p.Reasons(x)
	list := make([]choice, len(asks))
	for k, s := range x.Choices {
		list[k] = choice{variant: -1, host: -1, first: -1, firstHost: -1, why: func() string { return reason(k) + c.failures(asks[k].app) }}
		if s.Bin >= 0 {
			list[k].variant, list[k].host = asks[k].variants[s.Variant], use[s.Bin]
		}
	}
	return list
}

// models lists the models of the host's assignments that are kept, where their memory is shared.
func (c *Controller) models(host int, kept func(*assignment) bool) (list []string) {
	if !c.problem.Shared {
		return nil
	}
	for _, x := range c.on[host] {
		if m := c.problem.Variant(x.Assignment).Model; m != "" && kept(x) {
			list = append(list, m)
		}
	}
	return list
}

// need is what the variant takes on the host besides what room is kept for.
func (c *Controller) need(app, variant, host int) []float64 {
	v := &c.problem.Applications[app].Variants[variant]
	demand := v.Demand
	if m := v.Model; m != "" && slices.Contains(c.models(host, c.committed), m) {
		demand = slices.Clone(demand)
		demand[0] = 0
	}
	return demand
}

// formulate is the ask as an application of a problem.
func (c *Controller) formulate(q *ask) placement.Item {
	s := &c.problem.Applications[q.app]
	a := placement.Item{Name: s.Name, Rate: s.Rate, MaxLatency: s.MaxLatency}
	if q.apart != nil {
		a.Primary, a.Site = c.problem.Hosts[q.apart.Host].Name, c.problem.Hosts[q.apart.Host].Site
	}
	if len(q.variants) == 0 { // none is in time, as the plan will say
		for v := range s.Variants {
			a.Variants = append(a.Variants, s.Variants[v].Alternative)
		}
	}
	for _, v := range q.variants {
		a.Variants = append(a.Variants, s.Variants[v].Alternative)
	}
	for _, list := range [][]int{s.Excluded, q.excluded} {
		for _, x := range list {
			a.Excluded = append(a.Excluded, c.problem.Hosts[x].Name)
		}
	}
	for _, b := range c.apps[q.app].blocked {
		if b.until > c.now {
			a.Excluded = append(a.Excluded, c.problem.Hosts[b.host].Name)
		}
	}
	return a
}

// recoveryPlan plans where the applications are loaded, by the policy.
func (c *Controller) recoveryPlan(list []int) []choice {
	switch c.options.Policy {
	case FullWarm:
		return c.none(list, "the policy loads nothing after a loss")
	case FullCold, FullWarmK:
		return c.inOrder(list, func(i int) []int { return []int{c.apps[i].full} }, algorithm1)
	case FailLite:
		choices := c.inOrder(list, func(i int) []int { return c.apps[i].sorted }, algorithm1)
		for k, i := range list {
			if choices[k].host >= 0 {
				choices[k].first, choices[k].firstHost = c.apps[i].sorted[0], choices[k].host
			}
		}
		return choices
	}
	return c.byGain(list)
}

func (c *Controller) none(list []int, why string) []choice {
	choices := make([]choice, len(list))
	for k := range choices {
		choices[k] = choice{-1, -1, -1, -1, func() string { return why }}
	}
	return choices
}

// inOrder plans critical applications before the others.
func (c *Controller) inOrder(list []int, variants func(app int) []int, how algorithm) []choice {
	var asks []ask
	var from []int
	for _, critical := range []bool{true, false} {
		for k, i := range list {
			if c.problem.Applications[i].Critical == critical {
				asks, from = append(asks, ask{app: i, variants: variants(i)}), append(from, k)
			}
		}
	}
	choices := make([]choice, len(list))
	for k, s := range c.solve(asks, c.rooms(c.committed), 0, how) {
		choices[from[k]] = s
	}
	return choices
}

// byGain plans as our policy does: as many applications as possible, critical ones first
// where not all find room, and then by gain. Those that find none get the room that backups of
// others leave as they become smaller, or are given up. What is loaded before has room in
// addition.
func (c *Controller) byGain(list []int) []choice {
	rooms := c.rooms(c.committed)
	asks := make([]ask, len(list))
	for k, i := range list {
		asks[k] = ask{app: i, variants: c.apps[i].sorted}
	}
	choices := c.solve(asks, rooms, 0, ours)
	if missing(choices) {
		choices = c.criticalFirst(asks, rooms, choices)
	}
	for k := range choices {
		c.occupy(rooms, asks[k].app, choices[k].variant, choices[k].host, 1)
	}
	for k := range choices {
		if choices[k].host >= 0 {
			c.before(asks[k].app, &choices[k], rooms)
		}
	}
	if missing(choices) {
		c.displace(asks, choices, c.yielded(), false)
	}
	if missing(choices) {
		c.displace(asks, choices, c.rooms(c.serving), true)
	}
	return choices
}

func missing(choices []choice) bool {
	return slices.ContainsFunc(choices, func(s choice) bool { return s.host < 0 })
}

// displace plans the smallest variants of those that found no room, with the rooms that there
// are without some of the backups, which then make room for them.
func (c *Controller) displace(asks []ask, choices []choice, rooms [][]float64, drops bool) {
	var some []ask
	var which []int
	for k, s := range choices {
		if s.host >= 0 {
			c.occupy(rooms, asks[k].app, s.variant, s.host, 1)
			if s.first >= 0 {
				c.occupy(rooms, asks[k].app, s.first, s.firstHost, 1)
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
		if s.host >= 0 {
			choices[which[k]] = s
			c.crowded = append(c.crowded, crowd{s.host, drops})
		}
	}
}

// criticalFirst plans the critical applications by themselves, and the others with what is
// left, unless the plan has room for all that are critical.
func (c *Controller) criticalFirst(asks []ask, rooms [][]float64, choices []choice) []choice {
	critical := func(k int) bool { return c.problem.Applications[asks[k].app].Critical }
	missing := false
	for k, s := range choices {
		missing = missing || s.host < 0 && critical(k)
	}
	if !missing {
		return choices
	}
	left := make([][]float64, len(rooms))
	for i := range rooms {
		left[i] = slices.Clone(rooms[i])
	}
	result := make([]choice, len(asks))
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
			c.occupy(left, some[k].app, s.variant, s.host, 1)
		}
	}
	return result
}

// occupy takes room for the variant so many times; a host of −1 is nowhere.
func (c *Controller) occupy(rooms [][]float64, app, variant, host int, times float64) {
	if host < 0 {
		return
	}
	for r, d := range c.problem.Applications[app].Variants[variant].Demand {
		rooms[host][r] -= times * d
	}
}

// before finds room for the smallest variant next to the chosen one, on its host or on
// another. Where there is none, the smallest is all that is loaded for now.
func (c *Controller) before(app int, s *choice, rooms [][]float64) {
	small := c.apps[app].sorted[0]
	if small == s.variant {
		return
	}
	at := -1
	if within(c.need(app, small, s.host), rooms[s.host]) {
		at = s.host
	}
	for i := range rooms {
		if at < 0 && c.allowed(app, i) && within(c.need(app, small, i), rooms[i]) {
			at = i
		}
	}
	if at >= 0 {
		s.first, s.firstHost = small, at
		c.occupy(rooms, app, small, at, 1)
		return
	}
	c.occupy(rooms, app, s.variant, s.host, -1)
	s.variant = small
	c.occupy(rooms, app, s.variant, s.host, 1)
}

func within(demand, room []float64) bool {
	for r, d := range demand {
		if d > room[r]+slack*(1+d) {
			return false
		}
	}
	return true
}

// allowed reports whether the application may be loaded on the host.
func (c *Controller) allowed(app, host int) bool {
	return c.usable(app, host) && !slices.Contains(c.problem.Applications[app].Excluded, host)
}
