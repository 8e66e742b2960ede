package engines

import (
	"gearshift/router/fleet"
)

// This file changes the engines of slots.

// Vacate marks the replica's engine as gone, and retries its requests elsewhere if no client has received any part of
// the answer. Leave is called once no request begins there, and disconnects the transport.
func (e *Engines) Vacate(replica int, leave func()) {
	e.moving.Lock()
	e.options.Ledger.SetPresence(replica, fleet.Vacant)
	leave()
	e.health.monitor.Vacate(replica, e.options.Clock())
	e.renew(replica)
	e.moving.Unlock()
	if n := e.options.Lost(replica); n > 0 {
		e.options.Log.Warn("engine is gone: retrying requests without an answer elsewhere", "replica", e.table.Replicas[replica].Name, "requests", n)
	}
}

// Occupy puts a new engine in the replica, and probes it at once. Enter connects the transport, before the first
// request is sent.
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

// End stops or resumes new requests to the replica, whose engine is about to end or not ready. It finishes those that
// it has.
func (e *Engines) End(replica int, ending bool) {
	p := fleet.Present
	if ending {
		p = fleet.Ending
	}
	e.options.Ledger.SetPresence(replica, p)
}

// renew clears the state of the replica's engine.
func (e *Engines) renew(replica int) {
	e.signals.Forget([]int{replica})
	e.options.Drift.ForgetReplica(replica)
	e.options.Replaced(replica)
	e.options.Context(replica, 0)
}

// Address returns the present address of the replica's engine, host:port; empty for an engine within this process, and
// for a slot without one.
func (e *Engines) Address(replica int) string {
	at, _ := addressOf(e.options.Backends[replica])
	return at
}

// Shared returns the replica's name among routers: its own or, of a slot, which another router may have given to
// another engine, the variant at the engine's address. It is empty without an engine.
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
