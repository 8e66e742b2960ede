package serving

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/serving/agents"
)

// lifecycles has the engines of replicas load, unload, sleep and wake as operators order
// it, and notices what other hands do to them.
type lifecycles struct {
	server     *Server
	ledger     *fleet.Ledger
	actuator   *agents.Actuator
	controller *lifecycle.Controller // the runner's
	runner     *agents.Runner
	metrics    *lifecycleMetrics

	mu     sync.Mutex // protects what follows
	placed []fleet.State
	turn   chan struct{} // closed when a controller has been woken
}

// newLifecycles makes those of the server's replicas. They begin with start.
func newLifecycles(s *Server) *lifecycles {
	x := &lifecycles{server: s, ledger: s.router.Ledger(), metrics: newLifecycleMetrics(s), turn: make(chan struct{})}
	c := s.config.Lifecycle
	x.actuator = agents.New(agents.Options{
		Config: c.Config, Replicas: s.driven(), Clock: s.clock,
		Placed: x.ledger.Placed, Observe: x.observe, Ended: x.ended, Polled: x.polled,
	})
	x.controller = lifecycle.New(x.ledger, placing{x}, lifecycle.Options{
		DrainTimeout: c.DrainTimeout, ActionTimeout: max(c.LoadTimeout, c.ActionTimeout) + time.Minute,
	})
	x.runner = agents.NewRunner(s.clock, x.controller)
	x.runner.After = x.woken
	for i := range s.table.Replicas {
		x.placed = append(x.placed, x.ledger.Placed(i))
	}
	return x
}

// driven is what the actuator has to know of the replicas.
func (s *Server) driven() []agents.Replica {
	list := make([]agents.Replica, len(s.backends))
	for i, b := range s.backends {
		r := &s.table.Replicas[i]
		list[i] = agents.Replica{Name: r.Name, Host: r.Host, Model: s.modelOf(i)}
		engine, ok := b.Transport.(agents.Engine)
		if p, asked := b.Transport.(Prober); ok && asked && b.Lifecycle != nil {
			list[i].Engine, list[i].Dialect, list[i].Server = engine, b.Lifecycle, placeOf(p)
		}
	}
	return list
}

// start begins to ask engines for their states, and to follow orders.
func (x *lifecycles) start() {
	x.runner.Start()
	x.actuator.Start()
}

// stop ends it. Actions under way are cut off here, and go on in the engines.
func (x *lifecycles) stop() {
	x.actuator.Stop()
	x.runner.Stop()
}

// observe takes in what has happened to an engine.
func (x *lifecycles) observe(e control.Event) {
	if e.Kind == control.Changed {
		x.server.log.Info("another hand drives the engine", "replica", x.name(e.Replica), "state", e.State, "was", x.ledger.Placed(e.Replica))
	}
	x.runner.Observe(e)
}

// ended tells of an action of the actuator's.
func (x *lifecycles) ended(a control.Action, took time.Duration, err error) {
	x.metrics.ended(a, took, err)
	if err != nil {
		x.server.log.Warn("replica action failed", "replica", x.name(a.Replica), "action", a.Verb, "took", took, "error", err)
		return
	}
	x.server.log.Info("replica action done", "replica", x.name(a.Replica), "action", a.Verb, "took", took)
}

// polled tells of engines that do not say what they have, when that begins and ends.
func (x *lifecycles) polled(replicas []int, err error) {
	was := x.metrics.polled(replicas, err)
	switch {
	case err != nil && was:
		x.server.log.Warn("an engine does not tell the states of its models", "replica", x.name(replicas[0]), "error", err)
	case err == nil && !was:
		x.server.log.Info("an engine tells the states of its models", "replica", x.name(replicas[0]))
	}
}

func (x *lifecycles) name(replica int) string { return x.server.table.Replicas[replica].Name }

// woken follows the controller: replicas that are placed elsewhere than before are told
// of, and those who wait look again.
func (x *lifecycles) woken() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, was := range x.placed {
		now := x.ledger.Placed(i)
		if now == was {
			continue
		}
		x.placed[i] = now
		x.server.log.Info("replica placed", "replica", x.name(i), "state", now, "was", was)
		if now == fleet.Cold {
			x.server.abilities.Forget(i) // what is loaded next may have others
		}
		// Whether it is listed was asked of a model that is not loaded, or not yet.
		x.server.health.listed(i, "")
	}
	close(x.turn)
	x.turn = make(chan struct{})
}

// next is closed when the controller has been woken again.
func (x *lifecycles) next() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.turn
}

// LifecycleStatus is how far a replica's model is, and what is done about it.
type LifecycleStatus struct {
	// State is up, cold, loading, warm, draining or down.
	State string `json:"state"`
	// Epoch is the placement in which it was last placed; left out if it is as it was at the
	// start.
	Epoch uint64 `json:"epoch,omitempty"`
	// Dialect is how the engine is driven; left out if nothing drives it.
	Dialect string `json:"dialect,omitempty"`
	// Doing is what is being done: draining, waiting, load, unload, sleep or wake.
	Doing string `json:"doing,omitempty"`
	// Target is the state that is to come of it.
	Target string `json:"target,omitempty"`
	// Error is why the last order was not followed.
	Error string `json:"error,omitempty"`
	// Note is what else the engine says.
	Note string `json:"note,omitempty"`
}

// statuses are those of all replicas.
func (x *lifecycles) statuses() []LifecycleStatus {
	list := make([]LifecycleStatus, len(x.server.table.Replicas))
	x.runner.Look(func() {
		for i := range list {
			list[i] = x.of(i)
		}
	})
	return list
}

// of is the status of a replica. The runner's lock is held.
func (x *lifecycles) of(replica int) LifecycleStatus {
	s := x.controller.Status(replica)
	out := LifecycleStatus{State: s.State.String(), Epoch: s.Epoch, Doing: s.Doing}
	if b := x.server.backends[replica]; b.Lifecycle != nil && x.actuator.Driven(replica) {
		out.Dialect, out.Note = b.Lifecycle.Name(), x.actuator.Note(replica)
	}
	if s.Doing != "" {
		out.Target = s.Target.String()
	}
	if s.Err != nil {
		out.Error = s.Err.Error()
	}
	return out
}

// order has the replica brought to where the verb leads. It reports whether anything is
// to be done. Level is that of a sleep; 0 is the first.
func (x *lifecycles) order(replica int, v control.Verb, level int) (begun bool, err error) {
	x.runner.Do(func() { begun, err = x.want(replica, v, level) })
	return begun, err
}

// want is order within the runner.
func (x *lifecycles) want(replica int, v control.Verb, level int) (bool, error) {
	placed, target, name := x.ledger.Placed(replica), v.State(), x.name(replica)
	needed := v
	if v == control.Load && placed == fleet.Warm {
		needed = control.Wake
	}
	if err := x.actuator.Refuses(replica, agents.Order{Verb: needed, Level: cmp.Or(level, 1)}); err != nil {
		return false, refused{err}
	}
	status := x.controller.Status(replica)
	switch {
	case status.Doing == "" && placed == target:
		return false, nil
	case status.Doing == "" && placed == fleet.Cold && (v == control.Wake || v == control.Sleep):
		return false, fmt.Errorf("%s is cold, and cannot %v; load it first", name, v)
	}
	if err := x.controller.Want(replica, target, lifecycle.Order{}); err != nil {
		return false, err
	}
	if v == control.Sleep {
		x.actuator.SetLevel(replica, cmp.Or(level, 1))
	}
	return true, nil
}

// refused is the error of a verb that a replica's engine cannot do in any state.
type refused struct{ error }
