package failover

import (
	"cmp"
	"slices"

	"gearshift/router/placement"
)

// protects reports whether the policy holds backups of the application ready.
func (c *Controller) protects(i int) bool {
	switch c.options.Policy {
	case Gearshift, FullWarm:
		return true
	case FullCold:
		return false
	}
	return c.problem.Applications[i].Critical
}

// forms are the variants that new backups of the application may be.
func (c *Controller) forms(i int) []int {
	a := &c.apps[i]
	switch {
	case c.options.Policy == Gearshift && c.impaired():
		return a.sorted[:min(1, len(a.sorted))]
	case c.progressive():
		return a.sorted
	}
	return []int{a.full}
}

// impaired reports whether a host is not used. New backups are then as small as can be,
// since room is for those that answer.
func (c *Controller) impaired() bool {
	return slices.ContainsFunc(c.hosts, func(s host) bool { return s.condition != Up })
}

// recovering reports whether an application is on its way to be answered again.
func (c *Controller) recovering() bool {
	return slices.ContainsFunc(c.apps, func(a application) bool { return a.down && a.target != nil })
}

// protect plans backups for applications that have too few.
func (c *Controller) protect() {
	if c.options.Policy == FullCold || c.options.Policy == FullWarm && c.impaired() {
		return
	}
	for i := range c.apps {
		if a := &c.apps[i]; a.active != nil {
			a.backups = remove(a.backups, func(x *assignment) bool { return !c.apart(i, x.Host) })
			if c.protects(i) {
				c.adopt(i)
			}
		}
	}
	for n := range c.options.Backups {
		var list []int
		for _, critical := range []bool{true, false} {
			for i := range c.apps {
				if a := &c.apps[i]; a.active != nil && c.protects(i) && c.problem.Applications[i].Critical == critical && len(a.backups) == n {
					list = append(list, i)
				}
			}
		}
		if len(list) > 0 {
			c.hold(list)
		}
	}
}

// apart reports whether a backup of the application may be on the host: it is there, not
// excluded, and neither it nor, where that is asked for, its site is that of the active
// assignment.
func (c *Controller) apart(i, host int) bool {
	return c.hosts[host].condition != Lost && !slices.Contains(c.problem.Applications[i].Excluded, host) &&
		!c.together(host, c.apps[i].active.Host)
}

// together reports whether the two hosts count as one for backups.
func (c *Controller) together(s, t int) bool {
	x, y := c.problem.Hosts[s].Site, c.problem.Hosts[t].Site
	return s == t || c.options.SiteIndependent && x != "" && x == y
}

// adopt makes backups of assignments that are there and not wanted, the best first. Once all
// hosts are used, better ones replace the worst that the application has.
func (c *Controller) adopt(i int) {
	a := &c.apps[i]
	quality := func(x *assignment) float64 { return c.problem.Applications[i].Variants[x.Variant].Quality }
	var list []*assignment
	for _, x := range a.known {
		if x.phase == loaded && x != a.home && c.hosts[x.Host].condition == Up && !c.wanted(x) && c.apart(i, x.Host) && slices.Contains(a.sorted, x.Variant) {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(x, y *assignment) int { return cmp.Compare(quality(y), quality(x)) })
	for _, x := range list {
		kept := a.backups
		if len(kept) >= c.options.Backups {
			worst := slices.MinFunc(kept, func(y, z *assignment) int { return cmp.Compare(quality(y), quality(z)) })
			if c.impaired() || quality(worst) >= quality(x) {
				return
			}
			kept = remove(slices.Clone(kept), func(y *assignment) bool { return y == worst })
		}
		if slices.ContainsFunc(kept, func(y *assignment) bool { return c.together(y.Host, x.Host) }) ||
			!within(c.need(i, x.Variant, x.Host), c.room(x.Host, c.committed)) {
			continue
		}
		a.backups, a.exposed = append(kept, x), ""
		c.version++
		c.stepOf(StepProtected, x, 0, "")
	}
}

// backupAsk asks for one more backup of the application.
func (c *Controller) backupAsk(i int, variants []int) ask {
	a := &c.apps[i]
	q := ask{app: i, variants: variants, apart: a.active}
	for s := range c.hosts {
		if slices.ContainsFunc(a.backups, func(x *assignment) bool { return c.together(x.Host, s) }) {
			q.excluded = append(q.excluded, s)
		}
	}
	return q
}

// hold plans backups of the applications and wants them. Where not all find room, our policy
// has other backups be smaller.
func (c *Controller) hold(list []int) {
	asks := make([]ask, len(list))
	for k, i := range list {
		asks[k] = c.backupAsk(i, c.forms(i))
	}
	rooms := c.rooms(c.committed)
	choices := c.solve(asks, rooms, c.alpha(rooms), c.proactive(asks))
	var left []int
	for k, s := range choices {
		if s.host >= 0 {
			c.backUp(list[k], s)
		} else {
			left = append(left, k)
		}
	}
	if c.options.Policy == Gearshift {
		left = c.holdSmaller(asks, left)
	}
	for _, k := range left {
		if a := &c.apps[list[k]]; a.exposed == "" {
			a.exposed = choices[k].why()
			c.stepApp(StepUnprotected, list[k], a.exposed)
		}
	}
}

// backUp wants a backup of the application.
func (c *Controller) backUp(i int, s choice) {
	a := &c.apps[i]
	x := c.want(i, s.variant, s.host)
	a.backups, a.exposed = append(a.backups, x), ""
	c.version++
	if x.phase == loaded {
		c.stepOf(StepProtected, x, 0, "")
	}
}

// holdSmaller plans the smallest backups for those of the asks, by index, that found no room,
// with the room that other backups leave as they become as small as can be. It returns those
// that find none even so.
func (c *Controller) holdSmaller(asks []ask, which []int) (left []int) {
	if len(which) == 0 {
		return nil
	}
	some := make([]ask, len(which))
	for k, j := range which {
		some[k] = asks[j] // of which the smallest variant is the first
		some[k].variants = some[k].variants[:min(1, len(some[k].variants))]
	}
	rooms := c.yielded()
	for k, s := range c.solve(some, rooms, c.alpha(rooms), ours) {
		if s.host < 0 {
			left = append(left, which[k])
			continue
		}
		c.backUp(some[k].app, s)
		c.yield(s.host, false)
	}
	return left
}

// alpha is the share of the rooms that stays free so that of all room for backups alpha does.
func (c *Controller) alpha(rooms [][]float64) float64 {
	share := 0.0
	for r := range c.problem.Resources {
		var most, left float64
		for i := range rooms {
			if c.hosts[i].condition == Up {
				most += c.room(i, func(*assignment) bool { return false })[r]
				left += max(0, rooms[i][r])
			}
		}
		if left > 0 {
			share = max(share, c.options.Alpha*most/left)
		}
	}
	return min(share, 1-1e-9)
}

// proactive is the algorithm by which backups are planned.
func (c *Controller) proactive(asks []ask) algorithm {
	variants := 0
	for k := range asks {
		variants += len(asks[k].variants)
	}
	switch {
	case c.options.Policy == Gearshift:
		return ours
	case c.options.Policy == FailLite && !c.problem.Shared && !c.impaired() && variants*len(c.hosts) <= mostExact:
		return exactly
	}
	return algorithm1
}

// Exact plans may have so many variants × hosts, and are asked so many times whether to stop.
const (
	mostExact = 1000
	mostAsked = 20
)

// exactly is the exact plan, or the best that is found quickly.
func exactly(p *placement.Problem) *placement.Plan {
	asked := 0
	return p.Exact(nil, func() bool { asked++; return asked > mostAsked })
}
