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

// Act implements [Actuator]. Activations and notices need nothing: what is up, and answers a
// task, gets its requests by the policy in charge, and clients get the step.
func (x *Replicas) Act(o Order) error {
	if o.Verb != control.Load && o.Verb != control.Unload {
		return nil
	}
	r := x.replica(o.Assignment)
	if r < 0 {
		return errors.New("there is no such replica: " + x.problem.Name(o.Assignment))
	}
	idle := !x.ordered(r)
	x.changed = true
	switch {
	case o.Verb == control.Unload:
		if x.release(r, o.Assignment); len(x.held[r]) > 0 || x.claims.OnlySleeps(r) && x.othersHeld(r) || !x.hosts.Driven(r) || x.options.Beside && !x.own[r] {
			// Others need it, or decide on it, or nothing unloads it.
			x.end(o, nil)
			return nil
		}
	case idle && x.claims.Up(r):
		x.share(r, o.Assignment)
		x.end(o, nil)
		return nil
	default:
		x.share(r, o.Assignment)
	}
	x.given++
	x.orders = append(x.orders, order{Order: o, replica: r, number: x.given})
	return nil
}

// Ordering reports whether an action has not ended.
func (x *Replicas) Ordering() bool { return len(x.orders) > 0 }

// ordered reports whether an action of the replica has not ended.
func (x *Replicas) ordered(replica int) bool {
	return slices.ContainsFunc(x.orders, func(o order) bool { return o.replica == replica })
}

// propose wants what has been ordered and may be carried out.
func (x *Replicas) propose() {
	for k := range x.orders {
		o := &x.orders[k]
		if o.want != 0 || x.waits && o.number > x.saved {
			continue
		}
		var err error
		if o.want, err = x.claims.Propose(lifecycle.Want{Replica: o.replica, State: o.Verb.State()}); err != nil {
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
		for _, a := range x.held[e.Replica] {
			x.Ended(Order{Assignment: a}, control.Unloaded, e.Reason)
		}
		x.free(e.Replica)
		return
	}
	x.now = max(x.now, e.At)
	for k := range x.orders {
		if o := &x.orders[k]; o.want == e.Want {
			var err error
			if e.Kind == control.ActionFailed || e.Kind == control.Evicted && !(o.Verb == control.Unload && len(x.held[o.replica]) > 0) {
				err = errors.New(e.Reason)
			} // else nobody wants the unload any more, since a load has been ordered
			x.settle(o, err)
		}
	}
	x.forget()
}

// settle reports how an order has ended, which is over then.
func (x *Replicas) settle(o *order, err error) {
	if (err == nil) == (o.Verb == control.Load) { // it is there, or still there
		x.share(o.replica, o.Assignment)
	} else {
		x.release(o.replica, o.Assignment)
	}
	if err == nil {
		x.own[o.replica] = o.Verb == control.Load
	}
	x.end(o.Order, err)
	o.number = 0
}

// end reports the end of an order to the controller.
func (x *Replicas) end(o Order, err error) {
	if err != nil {
		x.Ended(o, control.ActionFailed, err.Error())
		return
	}
	x.Ended(o, o.Verb.Done(), "")
}

// hold holds what is loaded for assignments and what room is kept for, and has the controller know what others
// take of its hosts.
func (x *Replicas) hold() {
	if x.replanned {
		x.keep()
	}
	for host := range x.lost {
		x.Occupy(host, float64(x.claims.Others(host)))
	}
}

// keep holds what is loaded for assignments and what room is kept for.
func (x *Replicas) keep() {
	x.replanned, x.kept = false, x.kept[:0]
	for r := range x.held {
		if len(x.held[r]) > 0 {
			x.kept = append(x.kept, r)
		}
	}
	for _, a := range x.Kept() {
		if r := x.replica(a); r >= 0 {
			x.kept = append(x.kept, r)
		}
	}
	x.claims.Hold(x.kept, nil)
}

// othersHeld reports whether assignments need a replica that sleeps and wakes with this one.
func (x *Replicas) othersHeld(replica int) bool {
	return slices.ContainsFunc(x.claims.Together(replica), func(r int) bool { return len(x.held[r]) > 0 || x.ordered(r) })
}

// idle reports whether a replica that nothing needs is awake.
func (x *Replicas) idle(replica int) bool {
	status := x.claims.Status(replica)
	return !x.othersHeld(replica) && !x.lost[x.table.Replicas[replica].Host] && status.Placed == fleet.Up && status.Doing == "" && status.Target == fleet.Up
}

// shareAll has all assignments share the replica that could be to it.
func (x *Replicas) shareAll(replica int) {
	for i := range x.problem.Applications {
		for v := range x.problem.Applications[i].Variants {
			if a := (Assignment{i, v, x.table.Replicas[replica].Host}); x.replica(a) == replica {
				x.share(replica, a)
			}
		}
	}
}

// reconcileOrders wants what is due, and takes in what nothing needs: the controller has that put to sleep. It
// reports whether the controller has to see something.
func (x *Replicas) reconcileOrders() (news bool) {
	x.propose()
	for r := range x.held {
		if x.options.Beside || !x.claims.OnlySleeps(r) || len(x.held[r]) > 0 || x.ordered(r) || !x.idle(r) {
			continue
		}
		x.shareAll(r)
		for _, a := range x.held[r] {
			x.Ended(Order{Assignment: a}, control.Loaded, "")
		}
		news = news || len(x.held[r]) > 0
	}
	return news
}

// Heard is [Controller.Heard] of an agent that says which replicas its host has. Those whose versions are being
// changed have what they had.
func (x *Replicas) Heard(host int, incarnation uint64, there func(replica int) bool, at time.Duration) {
	loaded := map[int]bool{} // by the first replica of a location
	for _, r := range x.table.ReplicasOn(host) {
		if there(r) {
			loaded[x.claims.First(r)] = true
		}
	}
	var list []Assignment
	for _, r := range x.table.ReplicasOn(host) {
		list = append(list, x.assignments(r, loaded[r] || x.claims.Rolling(r) && len(x.held[r]) > 0)...)
	}
	x.Controller.Heard(host, incarnation, list, at)
}

// assignments lists those that are there by what an engine says of their replica: those that are known, or else
// all that it could be.
func (x *Replicas) assignments(r int, there bool) (loaded []Assignment) {
	if !there {
		if !x.ordered(r) {
			x.free(r)
		}
		return nil
	}
	if len(x.held[r]) == 0 && !x.ordered(r) {
		x.shareAll(r)
	}
	for _, a := range x.held[r] {
		if !slices.ContainsFunc(x.orders, func(o order) bool { return o.Assignment == a }) {
			loaded = append(loaded, a)
		}
	}
	for _, o := range x.orders {
		if o.replica == r && o.Verb == control.Unload {
			loaded = append(loaded, o.Assignment)
		}
	}
	return loaded
}
