package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) (next time.Duration) {
	c.now = now
	for given := true; given; {
		c.arbitrate(now)
		next = control.Never
		for i := range c.replicas {
			next = min(next, c.step(i, now))
		}
		given = c.arbitrate(now)
	}
	c.watch(now)
	return next
}

// step does what is due on the replica, and returns when it is to be looked at again.
func (c *Controller) step(i int, now time.Duration) time.Duration {
	r := &c.replicas[i]
	if r.phase == settled {
		return control.Never
	}
	if !r.begun {
		r.begun, r.until = true, now+c.patience(r)
	}
	if r.phase != acting && c.ledger.EpochOf(i) != r.since {
		c.lost(i)
		return control.Never
	}
	switch r.phase {
	case draining:
		return c.stepDraining(i, now)
	case ready:
		return c.stepReady(i, now)
	}
	if now >= r.until {
		r.doubt = r.since
		c.fail(i, fmt.Errorf("no word of it for %v", c.options.ActionTimeout))
		return control.Never
	}
	return r.until
}

// patience is how long the phase may take.
func (c *Controller) patience(r *replica) time.Duration {
	switch {
	case r.phase == acting:
		return c.options.ActionTimeout
	case r.order.DrainTimeout > 0:
		return r.order.DrainTimeout
	}
	return c.options.DrainTimeout
}

// stepDraining acts once the replica is idle.
func (c *Controller) stepDraining(i int, now time.Duration) time.Duration {
	r := &c.replicas[i]
	verb := control.Unload
	if r.target == fleet.Warm {
		verb = control.Sleep
	}
	all := c.sleepers(i, verb)
	if n := c.inFlight(all); n > 0 && !r.order.Force {
		if now < r.until {
			return min(r.until, now+c.options.Interval)
		}
		whose := "its"
		if len(all) > 1 {
			whose = "its engine's"
		}
		c.settle(i, fleet.Up, fmt.Errorf("%s was not %s: %d of %s requests have not ended after %v", c.table.Replicas[i].Name, participle[verb], n, whose, c.patience(r)))
		return control.Never
	}
	// From here on their placement keeps requests away, even if they are undrained.
	if !c.reserveAll(all) {
		return control.Never
	}
	if c.inFlight(all) > 0 && !r.order.Force { // begun since, as somebody had undrained it
		for _, j := range all {
			if c.reserve(j, fleet.Up) {
				c.drain(j)
			}
		}
		return now + c.options.Interval
	}
	for _, j := range all {
		c.release(j)
		if j != i {
			c.lead(j)
		}
	}
	return c.act(i, verb, fleet.Up, now)
}

// stepReady acts once there is memory for it.
func (c *Controller) stepReady(i int, now time.Duration) time.Duration {
	r := &c.replicas[i]
	placed := c.ledger.Placed(i)
	verb, claimed := control.Load, fleet.Loading
	switch {
	case r.loaded:
		verb = control.Sleep
	case placed == fleet.Warm && r.target == fleet.Cold:
		verb, claimed = control.Unload, fleet.Draining
	case placed == fleet.Warm:
		verb = control.Wake
	}
	if verb == control.Load || verb == control.Wake {
		if err := c.lack(i, r.rank); err != nil { // what was to give memory back has not
			c.settle(i, placed, err)
			return control.Never
		}
		if !c.fits(i) {
			return now + c.options.Interval
		}
	}
	if !c.reserve(i, claimed) {
		return control.Never
	}
	return c.act(i, verb, placed, now)
}

// claim places the replica, unless another controller has done so since.
func (c *Controller) reserve(i int, s fleet.State) bool {
	r := &c.replicas[i]
	epoch, ok := c.ledger.PlaceSince(i, r.since, s)
	if !ok {
		c.lost(i)
		return false
	}
	r.since = epoch
	return true
}

// act has the actuator begin an action on a replica that has been claimed.
func (c *Controller) act(i int, verb control.Verb, from fleet.State, now time.Duration) time.Duration {
	r := &c.replicas[i]
	last := *r
	r.phase, r.verb, r.from, r.loaded, r.doubt = acting, verb, from, false, 0
	r.begun, r.until = true, now+c.options.ActionTimeout
	if err := c.actuator.Act(control.Action{Verb: verb, Replica: i, Epoch: r.since}); err != nil {
		c.fail(i, err)
		r.verb, r.from, r.doubt = last.verb, last.from, last.doubt // what is in doubt still is
	}
	switch r.phase {
	case acting:
		c.expect(i, now)
		return r.until
	case ready: // the actuator was done at once
		return c.step(i, now)
	}
	return control.Never
}

// expect has views say when a replica that is being loaded or woken is expected to be up: after
// the time that a load or a wake of its model takes, if that is known. A wake without a known time takes
// next to nothing.
func (c *Controller) expect(i int, now time.Duration) {
	r, model := &c.replicas[i], c.table.ModelOf(c.table.Replicas[i].Variant)
	switch {
	case r.target != fleet.Up:
	case r.verb == control.Wake:
		var takes time.Duration
		if model >= 0 {
			takes = c.table.Models[model].WakeTime()
		}
		c.ledger.Expect(i, max(1, now+takes))
	case r.verb == control.Load && model >= 0 && c.table.Models[model].Load > 0:
		c.ledger.Expect(i, now+c.table.Models[model].Load)
	}
}

// Observe implements [control.Controller]. Events of actions count for the action of
// their epoch alone, which may have been given up. Those without an epoch, of a replica on
// which no action is under way, report what another client of the engine has done.
func (c *Controller) Observe(e control.Event) {
	i := e.Replica
	if i < 0 || i >= len(c.replicas) {
		return
	}
	c.now = max(c.now, e.At)
	switch e.Kind {
	case control.Loaded, control.Unloaded, control.Slept, control.Woken:
		switch r := &c.replicas[i]; {
		case c.answers(e) && r.verb.Done() == e.Kind:
			c.done(i)
		case e.Action.Epoch == 0 || e.Action.Epoch == r.doubt:
			c.changed(i, stateAfter[e.Kind])
		}
	case control.Changed:
		c.changed(i, e.State)
	case control.ActionFailed:
		if c.answers(e) {
			c.fail(i, errors.New(cmp.Or(e.Reason, "the engine gave no reason")))
		} else if r := &c.replicas[i]; e.Action.Epoch == r.doubt {
			r.doubt = 0
		}
	}
}

// answers reports whether the event is of the action under way.
func (c *Controller) answers(e control.Event) bool {
	r := &c.replicas[e.Replica]
	return r.phase == acting && (e.Action.Epoch == 0 || e.Action.Epoch == r.since)
}

// stateAfter is the state that an event reports of the replica.
var stateAfter = map[control.Kind]fleet.State{
	control.Loaded: control.Load.State(), control.Unloaded: control.Unload.State(),
	control.Slept: control.Sleep.State(), control.Woken: control.Wake.State(),
}

// done follows an action that has succeeded.
func (c *Controller) done(i int) {
	r := &c.replicas[i]
	if r.verb == control.Load && r.target == fleet.Warm { // it takes no requests in between
		r.phase, r.loaded, r.begun = ready, true, false
		return
	}
	after := r.verb.State()
	r.ended = c.now
	if after == fleet.Up && r.target == fleet.Up {
		c.ledger.SetDrained(i, false)
	}
	c.settle(i, after, nil)
	c.settleOthers(i, r.verb, after, nil)
}

// fail follows an action that has failed. What was being loaded is not there, and
// everything else is as before.
func (c *Controller) fail(i int, err error) {
	r := &c.replicas[i]
	after := r.from
	r.ended = c.now
	if r.verb == control.Sleep { // after a load too
		after = fleet.Up
	}
	err = fmt.Errorf("%s was not %s: %w", c.table.Replicas[i].Name, participle[r.verb], err)
	c.settle(i, after, err)
	c.settleOthers(i, r.verb, after, err)
}

// settle ends the order with the replica placed in the state.
func (c *Controller) settle(i int, s fleet.State, err error) {
	r := &c.replicas[i]
	c.release(i)
	if s != c.ledger.Placed(i) && !c.reserve(i, s) {
		return
	}
	r.failed = err
	if r.target = s; s == fleet.Up && c.ledger.Drained(i) {
		r.target = fleet.Draining
	}
}

// changed follows what another client has done to the replica's engine. What an action
// leads to is reported by its own event.
func (c *Controller) changed(i int, s fleet.State) {
	r := &c.replicas[i]
	if r.phase == acting || r.loaded && s == fleet.Up || s == fleet.Down {
		return
	}
	if r.doubt = 0; c.ledger.Placed(i) == s {
		return
	}
	var err error
	if r.phase != settled && r.target != s {
		err = fmt.Errorf("%s was brought into the state %v from outside", c.table.Replicas[i].Name, s)
	}
	r.since = c.ledger.EpochOf(i)
	c.settle(i, s, err)
}

// lost leaves the replica to the controller that has placed it since.
func (c *Controller) lost(i int) {
	r := &c.replicas[i]
	c.release(i)
	r.since, r.target = c.ledger.EpochOf(i), c.ledger.Placed(i)
	r.failed = fmt.Errorf("another controller has brought %s into the state %v", c.table.Replicas[i].Name, r.target)
}
