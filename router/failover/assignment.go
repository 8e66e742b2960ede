package failover

import (
	"slices"
	"time"

	"gearshift/router/control"
)

// Order is an action of an assignment. Its epoch is the controller's.
type Order struct {
	Verb control.Verb
	Assignment
	Epoch uint64
}

// Actuator carries out orders. Act begins one and returns at once; [Controller.Ended] follows for loads and
// unloads. An error means that it was not begun.
type Actuator interface {
	Act(o Order) error
}

// phase is how far an assignment is.
type phase uint8

const (
	planned   phase = iota // wanted, and not there
	loading                // the actuator is at it
	loaded                 // it can answer
	unloading              // the actuator is at it
)

var phases = [...]string{"planned", "loading", "loaded", "unloading"}

// assignment is one that is wanted, or there.
type assignment struct {
	Assignment
	phase phase
	epoch uint64        // of the action under way
	since time.Duration // when it was begun
	until time.Duration // not to be tried before
	late  bool          // its load takes so long that others are tried
	again bool          // its action was begun by an earlier run, and is asked for again
}

// want returns the assignment, which is made if it is not known.
func (c *Controller) want(app, variant, host int) *assignment {
	at := Assignment{app, variant, host}
	if x := c.known[at]; x != nil {
		return x
	}
	x := &assignment{Assignment: at}
	c.known[at] = x
	c.on[host] = append(c.on[host], x)
	c.apps[app].known = append(c.apps[app].known, x)
	c.version++
	return x
}

// drop forgets the assignment, unless it is a home, which stays planned.
func (c *Controller) drop(x *assignment) {
	if x.late {
		c.version++ // room has been kept for it
	}
	x.phase, x.late, x.again = planned, false, false
	if x == c.apps[x.App].home {
		return
	}
	delete(c.known, x.Assignment)
	is := func(y *assignment) bool { return y == x }
	c.on[x.Host], c.apps[x.App].known = remove(c.on[x.Host], is), remove(c.apps[x.App].known, is)
}

func remove(list []*assignment, which func(*assignment) bool) []*assignment {
	return slices.DeleteFunc(list, which)
}

// wanted reports whether the application uses the assignment, or is to use it.
func (c *Controller) wanted(x *assignment) bool {
	a := &c.apps[x.App]
	return x == a.active || x == a.target || x == a.first || slices.Contains(a.backups, x)
}

// there reports whether the assignment can answer.
func (c *Controller) there(x *assignment) bool {
	return x != nil && x.phase == loaded && c.hosts[x.Host].condition != Lost
}

// act has the actuator begin an action, and reports whether it did.
func (c *Controller) act(verb control.Verb, x *assignment) error {
	c.number++
	epoch := c.options.Term<<32 | c.number
	err := c.actuator.Act(Order{verb, x.Assignment, epoch})
	if err == nil && (verb == control.Load || verb == control.Unload) {
		x.epoch, x.since, x.late, x.again = epoch, c.now, false, false
	}
	return err
}

// ended follows the end of an action, or what another client of the engine has done.
func (c *Controller) ended(e *event) {
	x := c.known[e.order.Assignment]
	if e.Kind == control.Loaded && (x == nil || x.phase == planned) { // begun by an earlier run, or by hand
		x = c.want(e.order.App, e.order.Variant, e.order.Host)
		x.phase, c.dirty = loaded, true
		return
	}
	if x == nil {
		return
	}
	mine := e.order.Epoch == 0 || e.order.Epoch == x.epoch
	c.dirty = true
	switch {
	case e.Kind == control.Loaded && mine && x.phase == loading:
		x.phase = loaded
		c.counts.Loads++
		c.stepOf(StepLoaded, x, c.now-x.since, "")
		if slices.Contains(c.apps[x.App].backups, x) {
			c.stepOf(StepProtected, x, 0, "")
		}
	case e.Kind == control.Unloaded && mine && x.phase == unloading:
		c.stepOf(StepUnloaded, x, 0, "")
		c.gone(x)
	case e.Kind == control.Unloaded && e.order.Epoch == 0 && x.phase == loaded:
		c.stepOf(StepUnloaded, x, 0, "another client of the engine has unloaded it")
		c.gone(x)
	case e.Kind == control.ActionFailed && mine && x.phase == loading && c.silent(x.Host):
		x.again, x.until = true, c.now+time.Second // the host may be at it
		c.later(x.until)
	case e.Kind == control.ActionFailed && mine && x.phase == loading:
		c.failed(x, e.Reason)
	case e.Kind == control.ActionFailed && mine && x.phase == unloading:
		x.phase, x.until = loaded, c.now+time.Second
		c.later(x.until)
	}
}

// failed follows a load that came to nothing: for a while it is tried on other hosts.
func (c *Controller) failed(x *assignment, why string) {
	c.counts.LoadsFailed++
	c.stepOf(StepLoadFailed, x, c.now-x.since, why)
	c.block(x, why)
	c.gone(x)
}

// The times for which an application is kept off a host on which its load has failed.
const (
	blockFirst = time.Second
	blockMost  = time.Minute
)

// block keeps the application off the assignment's host, for longer each time.
func (c *Controller) block(x *assignment, why string) {
	a := &c.apps[x.App]
	k := slices.IndexFunc(a.blocked, func(b block) bool { return b.host == x.Host })
	if k < 0 {
		k = len(a.blocked)
		a.blocked = append(a.blocked, block{host: x.Host})
	}
	b := &a.blocked[k]
	b.until = c.now + min(blockMost, blockFirst<<min(b.times, 10))
	b.times++
	b.why = why
	c.version++
	c.later(b.until)
}

// failures says why loads of the application have failed on the hosts that it is kept off; empty if
// there are none.
func (c *Controller) failures(i int) (text string) {
	for _, b := range c.apps[i].blocked {
		if b.until > c.now {
			text += "; its load on " + c.problem.Hosts[b.host].Name + " has failed: " + b.why
		}
	}
	return text
}

// isBlocked reports whether the application is kept off the host.
func (c *Controller) isBlocked(i, host int) bool {
	return slices.ContainsFunc(c.apps[i].blocked, func(b block) bool { return b.host == host && b.until > c.now })
}

// gone notes that the assignment is not there any more.
func (c *Controller) gone(x *assignment) {
	c.unwant(x)
	c.drop(x)
	c.dirty = true
}

// unwant takes the assignment from its application's wants.
func (c *Controller) unwant(x *assignment) {
	a := &c.apps[x.App]
	if !c.wanted(x) {
		return
	}
	c.version++
	if a.target == x {
		a.target, a.first = nil, nil
	}
	if a.first == x {
		a.first = nil
	}
	a.backups = remove(a.backups, func(y *assignment) bool { return y == x })
	if a.active == x {
		gap := a.gap
		c.silence(x.App)
		a.gap = gap
	}
}

// compare follows what an agent says is loaded on its host, of which another incarnation was
// known before, which may be 0 or the same. A load under way that is not listed has come to
// nothing in a new incarnation. In the first one that is known it may not have reached the
// host, and is asked for again.
func (c *Controller) compare(host int, list []Assignment, known uint64) {
	for _, x := range slices.Clone(c.on[host]) {
		switch {
		case x.phase == planned || slices.Contains(list, x.Assignment):
		case x.phase == loading && known == c.hosts[host].incarnation:
		case x.phase == loading && known == 0:
			x.again, c.dirty = true, true
		default:
			c.gone(x)
		}
	}
	for _, at := range list {
		if x := c.want(at.App, at.Variant, host); x.phase == planned || x.phase == loading {
			x.phase, x.late, x.again = loaded, false, false
			c.dirty = true
		}
	}
}

// forget notes that nothing is left on the host.
func (c *Controller) forget(host int) {
	for _, x := range slices.Clone(c.on[host]) {
		if x.phase != planned {
			c.gone(x)
		}
	}
}
