package failover

import (
	"errors"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// This file carries out what the controller of [Replicas] orders.

// SaveFirst has orders wait until a state that has them is saved, see [Replicas.Saved].
func (x *Replicas) SaveFirst() { x.waits = true }

// Saving returns how many orders the state has that is to be saved now. Again is false if nothing has happened
// since the last call.
func (x *Replicas) Saving() (orders uint64, again bool) {
	again, x.changed = x.changed, false
	return x.given, again
}

// Touch notes that a state saved before is out of date.
func (x *Replicas) Touch() { x.changed = true }

// Saved has so many orders carried out. The controllers are to be woken after it.
func (x *Replicas) Saved(orders uint64) { x.saved = max(x.saved, orders) }

// Act implements [control.Actuator]. Activations and notices need nothing: what is up, and answers a
// task, gets its requests by the policy in charge, and clients get the step.
func (x *Replicas) Act(a control.Action) error {
	if a.Verb != control.Load && a.Verb != control.Unload {
		return nil
	}
	r := x.slotOf[a.Replica]
	if r < 0 {
		return errors.New("there is no such replica: " + x.system.Name(a.Replica))
	}
	s, idle := &x.slots[r], !x.ordered(r)
	x.changed = true
	switch {
	case a.Verb == control.Unload:
		if s.release(a.Replica); len(s.held) > 0 || x.claims.OnlySleeps(r) && x.othersHeld(r) || !x.hosts.Driven(r) {
			// Others need it, or nothing unloads it.
			x.end(a, nil)
			return nil
		}
	case idle && x.claims.Up(r):
		s.hold(a.Replica)
		x.end(a, nil)
		return nil
	default:
		s.hold(a.Replica)
	}
	x.given++
	x.orders = append(x.orders, order{Action: a, slot: r, number: x.given})
	return nil
}

// Ordering reports whether an action has not ended.
func (x *Replicas) Ordering() bool { return len(x.orders) > 0 }

// ordered reports whether an action of the replica has not ended.
func (x *Replicas) ordered(slot int) bool {
	return slices.ContainsFunc(x.orders, func(o order) bool { return o.slot == slot })
}

// propose wants what has been ordered and may be carried out.
func (x *Replicas) propose() {
	for k := range x.orders {
		o := &x.orders[k]
		if o.want != 0 || x.waits && o.number > x.saved {
			continue
		}
		var err error
		if o.want, err = x.claims.Propose(lifecycle.Want{Replica: o.slot, State: o.Verb.State()}); err != nil {
			x.settle(o, err)
		}
	}
	x.forget()
}

// forget drops the orders that are over.
func (x *Replicas) forget() {
	x.orders = slices.DeleteFunc(x.orders, func(o order) bool { return o.number == 0 })
}

// reported takes in how what was wanted has ended, or that what is held has been unloaded.
func (x *Replicas) reported(e control.Event) {
	if e.Want == 0 {
		s := &x.slots[e.Replica]
		for _, id := range s.held {
			x.observe(control.Event{At: e.At, Kind: control.Unloaded, Replica: id, Reason: e.Reason})
		}
		s.held = nil
		return
	}
	x.now = max(x.now, e.At)
	for k := range x.orders {
		if o := &x.orders[k]; o.want == e.Want {
			var err error
			if e.Kind == control.ActionFailed || e.Kind == control.Evicted && !(o.Verb == control.Unload && len(x.slots[o.slot].held) > 0) {
				err = errors.New(e.Reason)
			} // else nobody wants the unload any more, since a load has been ordered
			x.settle(o, err)
		}
	}
	x.forget()
}

// settle reports how an order has ended, which is over then.
func (x *Replicas) settle(o *order, err error) {
	switch s := &x.slots[o.slot]; {
	case (err == nil) == (o.Verb == control.Load): // it is there, or still there
		s.hold(o.Replica)
	default:
		s.release(o.Replica)
	}
	x.end(o.Action, err)
	o.number = 0
}

// end reports the end of an action to the controller.
func (x *Replicas) end(a control.Action, err error) {
	e := control.Event{At: x.now, Kind: a.Verb.Done(), Replica: a.Replica, Action: a}
	if err != nil {
		e.Kind, e.Reason = control.ActionFailed, err.Error()
	}
	x.observe(e)
}

// observe reports an event of an instance to the controller.
func (x *Replicas) observe(e control.Event) {
	_, _, e.Host = x.system.Of(e.Replica)
	x.Controller.Observe(e)
}

// hold holds what is loaded for instances and what room is kept for, and has the controller know what others
// take of its servers.
func (x *Replicas) hold() {
	x.kept = x.kept[:0]
	for r := range x.slots {
		if len(x.slots[r].held) > 0 {
			x.kept = append(x.kept, r)
		}
	}
	for _, id := range x.Kept() {
		if r := x.slotOf[id]; r >= 0 {
			x.kept = append(x.kept, r)
		}
	}
	x.claims.Hold(x.kept, nil)
	for i, host := range x.hostOf {
		x.Occupy(i, float64(x.claims.Others(host)))
	}
}

// othersHeld reports whether instances need a replica that sleeps and wakes with this one.
func (x *Replicas) othersHeld(replica int) bool {
	return slices.ContainsFunc(x.claims.Together(replica), func(r int) bool { return len(x.slots[r].held) > 0 || x.ordered(r) })
}

// idle reports whether a replica that nothing needs is awake, of an engine that can sleep.
func (x *Replicas) idle(replica int) bool {
	if !x.claims.OnlySleeps(replica) || x.othersHeld(replica) {
		return false
	}
	server, status := x.server[x.slots[replica].host], x.claims.Status(replica)
	return server >= 0 && !x.lost[server] && status.Placed == fleet.Up && status.Doing == "" && status.Target == fleet.Up
}

// holdAll has all instances hold the replica that they could be.
func (x *Replicas) holdAll(replica int) {
	for id, r := range x.slotOf {
		if r == replica {
			x.slots[replica].hold(id)
		}
	}
}

// reconcileOrders wants what is due, and takes in what nothing needs: the controller has that put to sleep. It
// reports whether the controller has to see something.
func (x *Replicas) reconcileOrders(now time.Duration) (news bool) {
	x.propose()
	for r := range x.slots {
		s := &x.slots[r]
		if len(s.held) > 0 || x.ordered(r) || !x.idle(r) {
			continue
		}
		x.holdAll(r)
		for _, id := range s.held {
			x.observe(control.Event{At: now, Kind: control.Loaded, Replica: id})
		}
		news = news || len(s.held) > 0
	}
	return news
}

// Heard is [Controller.Heard] of an agent that says which replicas its host has. Those whose versions are being
// changed have what they had.
func (x *Replicas) Heard(host int, incarnation uint64, there func(replica int) bool, at time.Duration) {
	loaded := map[int]bool{} // by the first replica of a location
	for r := range x.slots {
		if x.slots[r].host == host && there(r) {
			loaded[x.claims.First(r)] = true
		}
	}
	var list []int
	for r := range x.slots {
		if s := &x.slots[r]; s.host == host {
			list = append(list, x.instances(r, loaded[r] || x.claims.Rolling(r) && len(s.held) > 0)...)
		}
	}
	x.Controller.Heard(x.server[host], incarnation, list, at)
}

// instances lists those that are there by what an engine says of their replica: those that are known, or else
// all that it could be.
func (x *Replicas) instances(r int, there bool) (loaded []int) {
	s := &x.slots[r]
	if !there {
		if !x.ordered(r) {
			s.held = nil
		}
		return nil
	}
	if len(s.held) == 0 && !x.ordered(r) {
		x.holdAll(r)
	}
	for _, id := range s.held {
		if !slices.ContainsFunc(x.orders, func(o order) bool { return o.Replica == id }) {
			loaded = append(loaded, id)
		}
	}
	for _, o := range x.orders {
		if o.slot == r && o.Verb == control.Unload {
			loaded = append(loaded, o.Replica)
		}
	}
	return loaded
}
