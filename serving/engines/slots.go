package engines

import (
	"gearshift/router/fleet"
)

// This file lets the engines of slots come and go.

// Vacate takes out the replica, whose engine is gone, and has its requests tried elsewhere of which no client has
// got anything. Leave is called once nothing new begins there, and ends the transport's use of the address.
func (e *Engines) Vacate(replica int, leave func()) {
	e.moving.Lock()
	e.options.Ledger.SetPresence(replica, fleet.Vacant)
	leave()
	e.health.monitor.Vacate(replica, e.options.Clock())
	e.renew(replica)
	e.moving.Unlock()
	if n := e.options.Lost(replica); n > 0 {
		e.options.Log.Warn("engine is gone: what it has not begun to answer is tried elsewhere", "replica", e.table.Replicas[replica].Name, "requests", n)
	}
}

// Occupy has a new engine answer for the replica, which is probed at once. Enter has the transport lead there, before
// the first request is sent.
func (e *Engines) Occupy(replica int, enter func()) {
	e.moving.Lock()
	enter()
	e.health.monitor.Occupy(replica, e.Address(replica), e.options.Clock())
	e.renew(replica)
	e.options.Found(replica)
	e.options.Ledger.SetPresence(replica, fleet.Present)
	e.moving.Unlock()
	e.health.unlisted(replica)
}

// End keeps new requests away from the replica, whose engine is about to end or not ready, or lets them in again. It
// finishes what it has.
func (e *Engines) End(replica int, ending bool) {
	p := fleet.Present
	if ending {
		p = fleet.Ending
	}
	e.options.Ledger.SetPresence(replica, p)
}

// renew forgets what is known of the replica's engine.
func (e *Engines) renew(replica int) {
	e.signals.Forget([]int{replica})
	e.options.Drift.ForgetReplica(replica)
	e.options.Replaced(replica)
	e.options.Context(replica, 0)
}

// Address returns where the replica's engine is connected to now, host:port; empty of one within this process, and
// of a slot without an engine.
func (e *Engines) Address(replica int) string {
	at, _ := addressOf(e.options.Backends[replica])
	return at
}

// Shared returns the name by which routers of the fleet tell each other of the replica: its own or, of a slot, which
// another router may have given to another engine, its variant at the address of the engine. It is empty without one.
func (e *Engines) Shared(replica int) string {
	r := &e.table.Replicas[replica]
	if _, ok := e.options.Backends[replica].Transport.(Slot); !ok {
		return r.Name
	}
	if at := e.Address(replica); at != "" {
		return e.table.Variants[r.Variant].Name + "@" + at
	}
	return ""
}
