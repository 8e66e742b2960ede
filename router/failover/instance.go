package failover

import (
	"slices"
	"time"

	"gearshift/router/control"
)

// phase is how far an instance is.
type phase uint8

const (
	planned   phase = iota // wanted, and not there
	loading                // the actuator is at it
	loaded                 // it can answer
	unloading              // the actuator is at it
)

var phases = [...]string{"planned", "loading", "loaded", "unloading"}

// instance is a variant of an application on a server that is wanted, or there.
type instance struct {
	id, app, variant, server int
	phase                    phase
	epoch                    uint64        // of the action under way
	since                    time.Duration // when it was begun
	until                    time.Duration // not to be tried before
	late                     bool          // its load takes so long that others are tried
	again                    bool          // its action was begun by an earlier run, and is asked for again
}

// want returns the instance, which is made if it is not known.
func (c *Controller) want(app, variant, server int) *instance {
	id := c.system.Instance(app, variant, server)
	if x := c.byID[id]; x != nil {
		return x
	}
	x := &instance{id: id, app: app, variant: variant, server: server}
	c.byID[id] = x
	c.on[server] = append(c.on[server], x)
	c.apps[app].known = append(c.apps[app].known, x)
	c.version++
	return x
}

// drop forgets the instance, unless it is a home, which stays planned.
func (c *Controller) drop(x *instance) {
	if x.late {
		c.version++ // room has been kept for it
	}
	x.phase, x.late, x.again = planned, false, false
	if x == c.apps[x.app].home {
		return
	}
	delete(c.byID, x.id)
	is := func(y *instance) bool { return y == x }
	c.on[x.server], c.apps[x.app].known = remove(c.on[x.server], is), remove(c.apps[x.app].known, is)
}

func remove(list []*instance, which func(*instance) bool) []*instance {
	return slices.DeleteFunc(list, which)
}

// wanted reports whether the application uses the instance, or is to use it.
func (c *Controller) wanted(x *instance) bool {
	a := &c.apps[x.app]
	return x == a.active || x == a.target || x == a.first || slices.Contains(a.backups, x)
}

// there reports whether the instance can answer.
func (c *Controller) there(x *instance) bool {
	return x != nil && x.phase == loaded && c.servers[x.server].condition != Lost
}

// act has the actuator begin an action, and reports whether it did.
func (c *Controller) act(verb control.Verb, x *instance) error {
	c.number++
	epoch := c.options.Term<<32 | c.number
	err := c.actuator.Act(control.Action{Verb: verb, Replica: x.id, Epoch: epoch})
	if err == nil && (verb == control.Load || verb == control.Unload) {
		x.epoch, x.since, x.late, x.again = epoch, c.now, false, false
	}
	return err
}

// ended follows the end of an action, or what another client of the engine has done.
func (c *Controller) ended(e *control.Event) {
	if e.Replica < 0 || e.Replica >= c.system.Instances() {
		return
	}
	x := c.byID[e.Replica]
	if e.Kind == control.Loaded && (x == nil || x.phase == planned) { // begun by an earlier run, or by hand
		x = c.want(c.system.Of(e.Replica))
		x.phase, c.dirty = loaded, true
		return
	}
	if x == nil {
		return
	}
	mine := e.Action.Epoch == 0 || e.Action.Epoch == x.epoch
	c.dirty = true
	switch {
	case e.Kind == control.Loaded && mine && x.phase == loading:
		x.phase = loaded
		c.counts.Loads++
		c.stepOf(StepLoaded, x, c.now-x.since, "")
		if slices.Contains(c.apps[x.app].backups, x) {
			c.stepOf(StepProtected, x, 0, "")
		}
	case e.Kind == control.Unloaded && mine && x.phase == unloading:
		c.stepOf(StepUnloaded, x, 0, "")
		c.gone(x)
	case e.Kind == control.Unloaded && e.Action.Epoch == 0 && x.phase == loaded:
		c.stepOf(StepUnloaded, x, 0, "another client of the engine has unloaded it")
		c.gone(x)
	case e.Kind == control.ActionFailed && mine && x.phase == loading && c.silent(x.server):
		x.again, x.until = true, c.now+time.Second // the server may be at it
		c.later(x.until)
	case e.Kind == control.ActionFailed && mine && x.phase == loading:
		c.failed(x, e.Reason)
	case e.Kind == control.ActionFailed && mine && x.phase == unloading:
		x.phase, x.until = loaded, c.now+time.Second
		c.later(x.until)
	}
}

// failed follows a load that came to nothing: for a while it is tried on other servers.
func (c *Controller) failed(x *instance, why string) {
	c.counts.LoadsFailed++
	c.stepOf(StepLoadFailed, x, c.now-x.since, why)
	c.block(x, why)
	c.gone(x)
}

// The times for which an application is kept off a server on which its load has failed.
const (
	blockFirst = time.Second
	blockMost  = time.Minute
)

// block keeps the application off the instance's server, for longer each time.
func (c *Controller) block(x *instance, why string) {
	a := &c.apps[x.app]
	k := slices.IndexFunc(a.blocked, func(b block) bool { return b.server == x.server })
	if k < 0 {
		k = len(a.blocked)
		a.blocked = append(a.blocked, block{server: x.server})
	}
	b := &a.blocked[k]
	b.until = c.now + min(blockMost, blockFirst<<min(b.times, 10))
	b.times++
	b.why = why
	c.version++
	c.later(b.until)
}

// failures says why loads of the application have failed on the servers that it is kept off; empty if
// there are none.
func (c *Controller) failures(i int) (text string) {
	for _, b := range c.apps[i].blocked {
		if b.until > c.now {
			text += "; its load on " + c.system.Servers[b.server].Name + " has failed: " + b.why
		}
	}
	return text
}

// isBlocked reports whether the application is kept off the server.
func (c *Controller) isBlocked(i, server int) bool {
	return slices.ContainsFunc(c.apps[i].blocked, func(b block) bool { return b.server == server && b.until > c.now })
}

// gone notes that the instance is not there any more.
func (c *Controller) gone(x *instance) {
	c.unwant(x)
	c.drop(x)
	c.dirty = true
}

// unwant takes the instance from its application's wants.
func (c *Controller) unwant(x *instance) {
	a := &c.apps[x.app]
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
	a.backups = remove(a.backups, func(y *instance) bool { return y == x })
	if a.active == x {
		gap := a.gap
		c.silence(x.app)
		a.gap = gap
	}
}

// compare follows what an agent says is loaded on its server, of which another incarnation was
// known before, which may be 0 or the same. A load under way that is not listed has come to
// nothing in a new incarnation. In the first one that is known it may not have reached the
// server, and is asked for again.
func (c *Controller) compare(server int, list []int, known uint64) {
	for _, x := range slices.Clone(c.on[server]) {
		switch {
		case x.phase == planned || slices.Contains(list, x.id):
		case x.phase == loading && known == c.servers[server].incarnation:
		case x.phase == loading && known == 0:
			x.again, c.dirty = true, true
		default:
			c.gone(x)
		}
	}
	for _, id := range list {
		if id < 0 || id >= c.system.Instances() {
			continue
		}
		app, variant, on := c.system.Of(id)
		if on != server {
			continue
		}
		if x := c.want(app, variant, server); x.phase == planned || x.phase == loading {
			x.phase, x.late, x.again = loaded, false, false
			c.dirty = true
		}
	}
}

// forget notes that nothing is left on the server.
func (c *Controller) forget(server int) {
	for _, x := range slices.Clone(c.on[server]) {
		if x.phase != planned {
			c.gone(x)
		}
	}
}
