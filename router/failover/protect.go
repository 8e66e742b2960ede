package failover

import "slices"

// protects reports whether the policy holds backups of the application ready.
func (c *Controller) protects(i int) bool {
	switch c.options.Policy {
	case Gearshift, FullWarm:
		return true
	case FullCold:
		return false
	}
	return c.system.Applications[i].Critical
}

// kinds are the variants that backups of the application may be.
func (c *Controller) forms(i int) []int {
	if c.options.Policy == Gearshift && c.impaired() {
		return c.apps[i].sorted[:min(1, len(c.apps[i].sorted))]
	}
	if c.progressive() {
		return c.apps[i].sorted
	}
	return []int{c.apps[i].full}
}

// impaired reports whether a server is not used. New backups are then as small as can be,
// since room is for those that answer.
func (c *Controller) impaired() bool {
	return slices.ContainsFunc(c.servers, func(s server) bool { return s.condition != Up })
}

// recovering reports whether an application is on its way to be answered again.
func (c *Controller) recovering() bool {
	return slices.ContainsFunc(c.apps, func(a application) bool { return a.down && a.target != nil })
}

// protect plans backups for applications that have too few, once all have recovered that can.
func (c *Controller) protect() {
	if c.options.Policy == FullCold || c.recovering() || c.options.Policy == FullWarm && c.impaired() {
		return
	}
	for i := range c.apps {
		if a := &c.apps[i]; a.active != nil {
			a.backups = remove(a.backups, func(x *instance) bool { return !c.apart(i, x.server, nil) })
			c.adopt(i)
		}
	}
	for n := range c.options.Backups {
		var asks []ask
		for _, critical := range []bool{true, false} {
			for i := range c.apps {
				if a := &c.apps[i]; a.active != nil && c.protects(i) && c.system.Applications[i].Critical == critical && len(a.backups) == n {
					asks = append(asks, c.backupAsk(i))
				}
			}
		}
		if len(asks) > 0 {
			c.hold(asks)
		}
	}
}

// apart reports whether a backup of the application may be on the server: it is up, not
// excluded, and neither it nor, where that is asked for, its site is that of the active
// instance or of another backup.
func (c *Controller) apart(i, server int, except *instance) bool {
	a := &c.apps[i]
	if c.servers[server].condition == Lost || slices.Contains(c.system.Applications[i].Excluded, server) {
		return false
	}
	return !c.together(server, a.active.server)
}

// together reports whether the two servers count as one for backups.
func (c *Controller) together(s, t int) bool {
	x, y := c.system.Servers[s].Site, c.system.Servers[t].Site
	return s == t || c.options.SiteIndependent && x != "" && x == y
}

// adopt makes backups of instances that are there and not wanted.
func (c *Controller) adopt(i int) {
	a := &c.apps[i]
	if !c.protects(i) {
		return
	}
	forms := c.forms(i)
	if c.options.Policy == Gearshift {
		forms = a.sorted
	}
	for _, v := range slices.Backward(forms) {
		for s := range c.servers {
			x := c.byID[c.system.Instance(i, v, s)]
			if len(a.backups) >= c.options.Backups || x == nil || x.phase != loaded || c.servers[s].condition != Up || c.wanted(x) || x == a.home || !c.apart(i, s, nil) {
				continue
			}
			if slices.ContainsFunc(a.backups, func(y *instance) bool { return c.together(y.server, s) }) || !within(c.demand(x), c.rooms(c.committed)[s]) {
				continue
			}
			a.backups = append(a.backups, x)
			a.exposed = ""
			c.stepOf(StepProtected, x, 0, "")
		}
	}
}

// backupAsk asks for one more backup of the application.
func (c *Controller) backupAsk(i int) ask {
	a := &c.apps[i]
	q := ask{app: i, variants: c.forms(i), apart: a.active}
	for s := range c.servers {
		if slices.ContainsFunc(a.backups, func(x *instance) bool { return c.together(x.server, s) }) {
			q.excluded = append(q.excluded, s)
		}
	}
	return q
}

// hold plans the backups and wants them.
func (c *Controller) hold(asks []ask) {
	how := algorithm1
	if c.options.Policy == Gearshift {
		how = greedy
	}
	rooms := c.rooms(c.committed)
	for k, s := range c.solve(asks, rooms, c.alpha(rooms), how) {
		a := &c.apps[asks[k].app]
		if s.server < 0 {
			if a.exposed != s.why {
				c.stepApp(StepUnprotected, asks[k].app, s.why)
			}
			a.exposed = s.why
			continue
		}
		a.backups, a.exposed = append(a.backups, c.want(asks[k].app, s.variant, s.server)), ""
		a.floor = c.impaired()
	}
}

// alpha is the share of the rooms that stays free so that of all room for backups alpha does.
func (c *Controller) alpha(rooms [][]float64) float64 {
	all := c.rooms(func(*instance) bool { return false })
	share := 0.0
	for r := range c.system.Resources {
		var most, left float64
		for i := range rooms {
			if c.servers[i].condition == Up {
				most, left = most+all[i][r], left+rooms[i][r]
			}
		}
		if left > 0 {
			share = max(share, c.options.Alpha*most/left)
		}
	}
	return min(share, 1-1e-9)
}
