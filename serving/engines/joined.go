package engines

import (
	"context"
	"errors"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/signals"
	"gearshift/serving/engines/agents"
)

// This file is what a controller that has joined may ask of the engines, and report to them.

// Join adds a controller, which one goroutine wakes after the lifecycles. A router that stands by does not wake it. It
// is called before [Engines.Start].
func (e *Engines) Join(c control.Controller) { e.JoinHere(gated{c, e}) }

// JoinHere adds a controller that gives engines no orders, and is woken on every router.
func (e *Engines) JoinHere(c control.Controller) {
	e.lifecycle.runner.Add(c)
	e.lifecycle.joined = true
}

// gated wakes a controller only while this router acts.
type gated struct {
	control.Controller
	engines *Engines
}

// Wake implements [control.Controller].
func (g gated) Wake(now time.Duration) time.Duration {
	if g.engines.StandsBy() != nil {
		return control.Never // until the runner is nudged
	}
	return g.Controller.Wake(now)
}

// ErrStandsBy refuses an order to an engine while another router acts.
var ErrStandsBy = errors.New("this router stands by: another one gives orders to engines")

// StandsBy returns [ErrStandsBy] while another router gives orders to engines.
func (e *Engines) StandsBy() error {
	if acts := e.options.Acts; acts != nil && !acts() {
		return ErrStandsBy
	}
	return nil
}

// OnFailed has f called with the replica of each attempt that it failed, from any goroutine, whether
// another replica answers the request or none. It is called before [Engines.Start].
func (e *Engines) OnFailed(f func(replica int)) { e.health.failed = f }

// Claim returns the claims of a rank of controllers, which observe hears of: see [lifecycle.Claims]. They
// are used by a controller that is at work, or within [Engines.Do] and [Engines.Look].
func (e *Engines) Claim(rank lifecycle.Rank, observe func(control.Event)) *lifecycle.Claims {
	return e.lifecycle.controller.Claim(rank, observe)
}

// Claims returns a function like [Engines.Claim] for a controller that may restart: each call releases the claims of
// the one before. Release only releases them.
func (e *Engines) Claims() (claim func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims, release func()) {
	var last *lifecycle.Claims
	release = func() {
		if last != nil {
			last.Release()
		}
		last = nil
	}
	return func(rank lifecycle.Rank, observe func(control.Event)) *lifecycle.Claims {
		release()
		last = e.Claim(rank, observe)
		return last
	}, release
}

// Rolling reports whether the version of what stands at the replica's location is being changed.
func (e *Engines) Rolling(replica int) bool { return e.lifecycle.controller.Rolling(replica) }

// Do calls f while no controller is at work, and has all woken after it.
func (e *Engines) Do(f func()) { e.lifecycle.runner.Do(f) }

// Look calls f while no controller is at work.
func (e *Engines) Look(f func()) { e.lifecycle.runner.Look(f) }

// Nudge wakes the controllers soon, without waiting for them.
func (e *Engines) Nudge() { e.lifecycle.runner.Nudge() }

// Settle wakes the controllers, so that what was reported to them so far has had its effect.
func (e *Engines) Settle() { e.lifecycle.runner.Settle() }

// Asked returns once each engine that is driven was asked what it has loaded, and the ledger has it, or the
// context has ended.
func (e *Engines) Asked(ctx context.Context) {
	e.lifecycle.actuator.Asked(ctx)
	e.Settle()
}

// Observe hands an event to the controllers. One that changes nothing now, such as a heartbeat that
// came in time, need not be urgent: controllers see it when they are woken next.
func (e *Engines) Observe(x control.Event, urgent bool) {
	if urgent {
		e.lifecycle.runner.Observe(x)
		return
	}
	e.lifecycle.runner.Note(x)
}

// evidence hands on what requests and probes have shown. Without a controller that has joined, only
// the health monitor needs it.
func (e *Engines) evidence(kind control.Kind, replica int, began time.Duration) {
	if !e.lifecycle.joined {
		return
	}
	e.lifecycle.runner.Observe(control.Event{At: e.options.Clock(), Kind: kind, Replica: replica, Host: e.table.Replicas[replica].Host, Began: began})
}

// Leave takes the replicas of a host out, which a controller has given up, and cuts off what its
// engines were ordered to do: that is then reported as failed.
func (e *Engines) Leave(host int) {
	list := e.table.ReplicasOn(host)
	e.health.leave(list)
	e.lifecycle.actuator.Abandon(list)
}

// Return gives the replicas of a host their full shares, without trials: it is well.
func (e *Engines) Return(host int) { e.health.back(e.table.ReplicasOn(host)) }

// Poll has the engines of a host asked for the states of their models.
func (e *Engines) Poll(host int) {
	for _, i := range e.table.ReplicasOn(host) {
		e.lifecycle.actuator.Poll(i)
	}
}

// SetStamp has each order to an engine carry a stamp, see [agents.Actuator.SetStamp]. It is called
// before [Engines.Start].
func (e *Engines) SetStamp(stamp agents.Stamp) { e.lifecycle.actuator.SetStamp(stamp) }

// Superseded is the error of an order to an engine that follows another router.
type Superseded = agents.Superseded

// OnEnded has f called with how each order to an engine has ended, from any goroutine. It is called
// before [Engines.Start].
func (e *Engines) OnEnded(f func(replica int, err error)) { e.lifecycle.onEnded = f }

// Addresses returns the present addresses of the replicas' engines, host:port; empty for an engine within this process,
// and for a slot without one.
func (e *Engines) Addresses() []string { return e.addresses() }

// Sleeps returns the levels at which engines have been put to sleep, by the names of replicas.
func (e *Engines) Sleeps() map[string]int {
	levels := map[string]int{}
	for i := range e.table.Replicas {
		if level := e.lifecycle.actuator.Level(i); level > 0 {
			levels[e.table.Replicas[i].Name] = level
		}
	}
	return levels
}

// SetSleeps sets the levels that [Engines.Sleeps] has returned in an earlier run. It is called before
// [Engines.Start].
func (e *Engines) SetSleeps(levels map[string]int) {
	for i := range e.table.Replicas {
		e.lifecycle.actuator.Slept(i, levels[e.table.Replicas[i].Name])
	}
}

// Together lists for each replica the others that its engine puts to sleep and wakes with it; nil if
// there are none.
func (e *Engines) Together() [][]int { return e.lifecycle.actuator.Together() }

// OnlySleeps reports whether the least that the replica's engine can do is to sleep, since it cannot unload.
func (e *Engines) OnlySleeps(replica int) bool { return e.lifecycle.lowest(replica) == fleet.Warm }

// Driven is the name of the dialect by which the replica's engine is ordered to load its model; empty
// if nothing drives it.
func (e *Engines) Driven(replica int) string {
	if b := e.options.Backends[replica]; b.Lifecycle != nil && e.lifecycle.actuator.Driven(replica) {
		return b.Lifecycle.Name()
	}
	return ""
}

// ModelOf is the name of the replica's model in its engine.
func (e *Engines) ModelOf(replica int) string { return e.options.Backends[replica].Named() }

// Placed is the state that the replica was last placed in.
func (e *Engines) Placed(replica int) fleet.State { return e.options.Ledger.Placed(replica) }

// The following methods are called by a controller that is at work, or within [Engines.Do] and
// [Engines.Look].

// LifecycleOf is how far the replica's order is.
func (e *Engines) LifecycleOf(replica int) lifecycle.Status {
	return e.lifecycle.controller.Status(replica)
}

// Found takes in the state that the replica's model is in, as its engine reports by itself.
func (e *Engines) Found(replica int, s fleet.State, at time.Duration) {
	if e.Placed(replica) == s {
		return
	}
	e.lifecycle.controller.Observe(control.Event{At: at, Kind: control.Changed, Replica: replica, Host: e.table.Replicas[replica].Host, State: s})
}

// Share sets the reported load of other routers on each replica; see [signals.Monitor.Share].
func (e *Engines) Share(shares []signals.Count) { e.signals.Share(shares) }

// GaugesAsked reports whether each server that has an engine has been asked for its gauges, with or without success.
func (e *Engines) GaugesAsked() bool { return e.scraper.Asked() }
