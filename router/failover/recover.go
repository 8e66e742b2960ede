package failover

import (
	"cmp"
	"fmt"
	"time"

	"gearshift/router/control"
)

// advance activates what is there: the assignment that is to answer, or the best that can, where
// none does.
func (c *Controller) advance() {
	for i := range c.apps {
		a := &c.apps[i]
		if !a.down {
			a.first = nil // not needed any more
		}
		for a.down || a.target != nil && a.target.phase == loaded {
			x := a.target
			if !c.ready(x) {
				x = nil
				if a.down {
					x = c.best(i)
				}
			}
			if x == nil || c.activate(x) {
				break
			}
		}
	}
}

// ready reports whether the assignment can be activated now.
func (c *Controller) ready(x *assignment) bool { return c.there(x) && x.until <= c.now }

// best is the application's best assignment that can answer; nil if none can.
func (c *Controller) best(i int) (best *assignment) {
	a := &c.problem.Applications[i]
	rank := func(x *assignment) int { // hosts that are heard come first, and those that have returned last
		if c.hosts[x.Host].condition == Up && c.silent(x.Host) {
			return 1
		}
		return int(c.hosts[x.Host].condition)
	}
	for _, x := range c.apps[i].known {
		if !c.ready(x) || !a.quick(x.Variant) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(rank(best), rank(x)), cmp.Compare(a.Variants[x.Variant].Quality, a.Variants[best.Variant].Quality), best.Compare(x.Assignment)) > 0 {
			best = x
		}
	}
	return best
}

// activate has the assignment answer, and clients notified, and reports whether it does.
func (c *Controller) activate(x *assignment) bool {
	if err := c.act(control.Activate, x); err != nil {
		x.until = c.now + time.Second
		c.later(x.until)
		return false
	}
	a := &c.apps[x.App]
	old, down, gap, since := a.active, a.down, a.gap, a.since
	a.active, a.down, a.gap, a.why = x, false, false, ""
	a.moved = a.home != nil && x != a.home
	c.version++
	if a.target == x {
		a.target, a.first = nil, nil
	}
	if a.first == x {
		a.first = nil
	}
	a.backups = remove(a.backups, func(y *assignment) bool { return y == x })
	_ = c.act(control.Notify, x) // who could not be notified finds out by a request
	switch {
	case down && !gap:
		c.counts.Recovered++
		c.counts.Outage += c.now - since
		c.stepOf(StepActivated, x, 0, "")
		c.stepOf(StepNotified, x, c.now-since, "")
	case x == a.home:
		c.counts.FailedBack++
		c.stepOf(StepFailedBack, x, 0, "")
	default:
		c.stepOf(StepSwapped, x, c.now-since, "")
	}
	if down && gap {
		c.counts.Gaps++
		c.counts.Gap += c.now - since
	}
	if old != nil && c.there(old) {
		c.dirty = true // it may go
	}
	return true
}

// recover plans where affected applications that have nothing to answer are loaded.
func (c *Controller) recover() {
	var list []int
	for i := range c.apps {
		a := &c.apps[i]
		begun := func(x *assignment) bool { return x != nil && x.phase != planned }
		if !a.down || begun(a.target) || begun(a.first) || a.target != nil && a.target == a.home {
			continue
		}
		if a.home != nil && c.usable(i, a.home.Host) {
			c.goHome(i)
			continue
		}
		if a.target != nil {
			continue
		}
		list = append(list, i)
	}
	if len(list) == 0 {
		return
	}
	for k, s := range c.recoveryPlan(list) {
		i := list[k]
		a := &c.apps[i]
		if s.host < 0 {
			if a.why == "" {
				a.why = s.why()
				c.stepApp(StepUnrecovered, i, a.why)
			}
			continue
		}
		a.target, a.why = c.want(i, s.variant, s.host), ""
		c.version++
		if s.first >= 0 && (s.first != s.variant || s.firstHost != s.host) {
			a.first = c.want(i, s.first, s.firstHost)
		}
	}
}

// usable reports whether the application may be loaded on the host now.
func (c *Controller) usable(i, host int) bool {
	return c.hosts[host].condition == Up && !c.isBlocked(i, host)
}

// goHome loads the application on its primary, for which room is kept.
func (c *Controller) goHome(i int) {
	a := &c.apps[i]
	a.target, a.first, a.why = a.home, nil, ""
	c.version++
	if !a.down || !c.progressive() || len(a.sorted) == 0 || a.sorted[0] == a.full {
		return
	}
	small := c.problem.Applications[i].Variants[a.sorted[0]].Demand
	if !within(small, c.room(a.home.Host, c.committed)) {
		return
	}
	a.first = c.want(i, a.sorted[0], a.home.Host)
}

// progressive reports whether the policy loads small variants before large ones.
func (c *Controller) progressive() bool {
	return c.options.Policy == Gearshift || c.options.Policy == FailLite
}

// failback moves applications back to primaries that have returned.
func (c *Controller) failback() {
	for i := range c.apps {
		a := &c.apps[i]
		if a.home == nil || a.active == nil || a.active == a.home || a.target == a.home || !c.usable(i, a.home.Host) {
			continue
		}
		a.target, a.first = a.home, nil
		a.backups = remove(a.backups, func(x *assignment) bool { return x == a.home })
		c.dirty = c.dirty || a.home.phase == loaded
		c.version++
	}
}

// conclude ends the failover once nothing more is under way.
func (c *Controller) conclude() {
	if !c.open {
		return
	}
	for i := range c.apps {
		a := &c.apps[i]
		if a.target != nil || a.first != nil {
			return
		}
		for _, x := range a.backups {
			if x.phase != loaded {
				return
			}
		}
	}
	c.open = false
	dark := 0
	for i := range c.apps {
		if c.apps[i].active == nil {
			dark++
		}
	}
	if dark > 0 {
		c.step(StepOver, -1, fmt.Sprintf("applications without an answer: %d", dark))
		return
	}
	c.step(StepRecovered, -1, "")
}
