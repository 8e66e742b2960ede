package failover

import (
	"cmp"
	"slices"
	"time"

	"gearshift/router/control"
)

// role orders loads.
type role int

const (
	roleFirst  role = iota // an affected application is answered again by it
	roleBetter             // a better variant than the one that took over
	roleHome               // back to the primary
	roleBackup             // for the next loss
)

// reconcile begins the unloads and loads that bring the hosts to what is wanted.
func (c *Controller) reconcile() {
	c.slow()
	for i := range c.on {
		if c.hosts[i].condition == Up {
			c.tidy(i)
		}
	}
	c.load()
}

// tidy unloads what is not wanted on the host.
func (c *Controller) tidy(host int) {
	for k := len(c.on[host]) - 1; k >= 0; k-- { // some are dropped on the way
		x := c.on[host][k]
		switch a := &c.apps[x.App]; {
		case x.again:
			if x.until <= c.now {
				c.askAgain(x)
			}
		case c.wanted(x) || x == a.home:
		case x.phase == planned:
			c.drop(x)
		case x.phase == loaded && x.until <= c.now && !a.down && !c.lingers(x):
			c.unload(x)
		}
	}
}

// lingers reports whether the assignment stays although it is not wanted: as a backup, until those
// that are wanted are loaded.
func (c *Controller) lingers(x *assignment) bool {
	a := &c.apps[x.App]
	return a.active != nil && c.apart(x.App, x.Host) && slices.ContainsFunc(a.backups, func(y *assignment) bool { return y.phase != loaded })
}

func (c *Controller) unload(x *assignment) {
	x.phase = unloading
	if err := c.act(control.Unload, x); err != nil {
		x.phase, x.until = loaded, c.now+time.Second
		c.later(x.until)
	}
}

// askAgain repeats an action that an earlier run of the controller has begun.
func (c *Controller) askAgain(x *assignment) {
	verb := control.Load
	if x.phase == unloading {
		verb = control.Unload
	}
	if err := c.act(verb, x); err != nil {
		x.until = c.now + time.Second
		c.later(x.until)
		return
	}
	c.later(c.now + c.patience(x))
}

// wish is a load that is to be begun.
type wish struct {
	*assignment
	role     role
	critical bool
	size     float64
}

// load begins loads: those that answer an affected application first, then better variants,
// critical applications and small variants before others.
func (c *Controller) load() {
	busy := make([]int, len(c.hosts))
	urgent := false
	for i, list := range c.on {
		for _, x := range list {
			if x.phase == loading {
				busy[i]++
				a := &c.apps[x.App]
				urgent = urgent || a.down && (x == a.first || x == a.target) && !x.late
			}
		}
	}
	for _, w := range c.wishes() {
		if w.phase != planned || busy[w.Host] >= c.options.Loaders || urgent && w.role >= roleHome {
			continue
		}
		if !c.fits(w.assignment, nil) {
			if c.makeRoom(w.assignment); w.role == roleFirst && !c.working(w.Host) {
				c.block(w.assignment, "there is no room for it, and none will be made")
				c.unwant(w.assignment)
				c.dirty = true
			}
			continue
		}
		if c.beginLoad(w.assignment) {
			busy[w.Host]++
			urgent = urgent || w.role == roleFirst
		}
	}
}

// beginLoad begins a load, and reports whether it did.
func (c *Controller) beginLoad(x *assignment) bool {
	x.phase = loading
	if err := c.act(control.Load, x); err != nil {
		c.failed(x, err.Error())
		return false
	}
	c.stepOf(StepLoadBegun, x, 0, "")
	c.later(c.now + c.patience(x))
	return true
}

// wishes lists the loads that are wanted and not begun, in order.
func (c *Controller) wishes() (list []wish) {
	for i := range c.apps {
		a := &c.apps[i]
		add := func(x *assignment, r role) {
			if x != nil && x.phase == planned && x.until <= c.now && c.usable(i, x.Host) {
				list = append(list, wish{x, r, c.problem.Applications[i].Critical, c.scratch.size(c.demand(x))})
			}
		}
		switch {
		case a.first != nil:
			add(a.first, roleFirst)
		case a.down:
			add(a.target, roleFirst)
		case a.target == a.home:
			add(a.target, roleHome)
		default:
			add(a.target, roleBetter)
		}
		for _, x := range a.backups {
			add(x, roleBackup)
		}
	}
	slices.SortStableFunc(list, func(x, y wish) int {
		first := cmp.Compare(x.role, y.role)
		if x.critical != y.critical && first == 0 {
			if first = 1; x.critical {
				first = -1
			}
		}
		return cmp.Or(first, cmp.Compare(x.size, y.size))
	})
	return list
}

// makeRoom unloads what stays on the assignment's host and is not wanted. Where that is nothing,
// FailLite unloads the smaller variant that answers there, if the chosen one does not fit in
// addition to it: the application is not answered until that is there.
func (c *Controller) makeRoom(x *assignment) {
	waits := false
	for _, y := range slices.Clone(c.on[x.Host]) {
		if y.phase == loaded && !c.wanted(y) && y.until <= c.now && y != c.apps[y.App].home && !c.apps[y.App].down {
			c.unload(y)
		}
		waits = waits || y.phase == unloading
	}
	a := &c.apps[x.App]
	if waits || c.options.Policy != FailLite || x != a.target || a.active == nil || a.active.Host != x.Host || a.active == a.home || !c.fits(x, a.active) {
		return
	}
	old := a.active
	a.active, a.down, a.gap, a.since = nil, true, true, c.now
	c.version++
	c.stepOf(StepGap, old, 0, "the chosen variant does not fit in addition to it")
	c.unload(old)
}

// working reports whether anything is being loaded or unloaded on the host.
func (c *Controller) working(host int) bool {
	return slices.ContainsFunc(c.on[host], func(x *assignment) bool { return x.phase == loading || x.phase == unloading })
}

// patience is how long a load may take until others are tried.
func (c *Controller) patience(x *assignment) time.Duration {
	return max(10*time.Second, 10*c.problem.Variant(x.Assignment).Load)
}

// slow gives up waiting for loads that take too long. What they take stays taken until they
// end.
func (c *Controller) slow() {
	for _, list := range c.on {
		for _, x := range list {
			if x.phase == loading && !x.late && c.now >= x.since+c.patience(x) {
				x.late = true
				c.block(x, "it takes too long")
				c.unwant(x)
			}
		}
	}
}
