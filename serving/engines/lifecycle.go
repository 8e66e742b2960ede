package engines

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/serving/config"
	"gearshift/serving/engines/agents"
)

// lifecycles has the engines of replicas load, unload, sleep and wake as operators order
// it, and notices what others do to them.
type lifecycles struct {
	engines    *Engines
	ledger     *fleet.Ledger
	actuator   *agents.Actuator
	controller *lifecycle.Controller // the runner's
	runner     *agents.Runner
	metrics    *lifecycleMetrics
	joined     bool                         // another controller is the runner's too
	onEnded    func(replica int, err error) // nil if no controller asks
	unwatch    context.CancelFunc
	watching   sync.WaitGroup

	mu     sync.Mutex // protects what follows
	placed []fleet.State
	turn   chan struct{} // closed when a controller has been woken
}

// newLifecycles makes those of the replicas. They begin with start.
func newLifecycles(e *Engines) *lifecycles {
	x := &lifecycles{engines: e, ledger: e.options.Ledger, metrics: newLifecycleMetrics(e), unwatch: func() {}, turn: make(chan struct{})}
	config := e.options.Lifecycle
	x.actuator = agents.New(agents.Options{
		Config: config, Replicas: e.driven(), Clock: e.options.Clock,
		Placed: x.ledger.Placed, Observe: x.observe, Ended: x.ended, Polled: x.polled,
	})
	x.controller = lifecycle.New(x.ledger, placing{x}, lifecycle.Options{
		DrainTimeout: e.options.DrainTimeout, Together: x.actuator.Together(), ActionTimeout: max(config.LoadTimeout, config.ActionTimeout) + time.Minute,
		Lowest: x.lowest, Nudge: func() { x.runner.Nudge() },
	})
	x.runner = agents.NewRunner(e.options.Clock, x.controller)
	x.runner.After = x.woken
	for i := range e.table.Replicas {
		x.placed = append(x.placed, x.ledger.Placed(i))
	}
	return x
}

// lowest is the state that an unload leads to: an engine that can only sleep stays warm.
func (x *lifecycles) lowest(replica int) fleet.State {
	refuses := func(v control.Verb) bool { return x.actuator.Refuses(replica, agents.Order{Verb: v, Level: 1}) != nil }
	if x.actuator.Driven(replica) && refuses(control.Unload) && !refuses(control.Sleep) {
		return fleet.Warm
	}
	return fleet.Cold
}

// driven is what the actuator has to know of the replicas.
func (e *Engines) driven() []agents.Replica {
	list := make([]agents.Replica, len(e.options.Backends))
	for i, b := range e.options.Backends {
		r := &e.table.Replicas[i]
		list[i] = agents.Replica{Name: r.Name, Host: r.Host, Model: b.Model}
		if b.Versioned != nil {
			list[i].Named = b.Versioned.Get
		}
		engine, ok := b.Transport.(agents.Engine)
		if p, asked := b.Transport.(Server); ok && asked && b.Lifecycle != nil {
			list[i].Engine, list[i].Dialect, list[i].Server = engine, b.Lifecycle, rootOf(p)
		}
	}
	return list
}

// start begins to ask engines for their states, and to follow orders.
func (x *lifecycles) start() {
	x.runner.Start()
	x.actuator.Start()
	ctx, cancel := context.WithCancel(context.Background())
	x.unwatch = cancel
	if slices.ContainsFunc(x.engines.options.Backends, func(b config.Backend) bool { return b.Lifecycle != nil }) {
		x.watching.Go(func() { x.watchSilent(ctx) })
	}
}

// stop ends it. Actions under way are cut off here, and go on in the engines.
func (x *lifecycles) stop() {
	x.unwatch()
	x.watching.Wait()
	x.actuator.Stop()
	x.runner.Stop()
}

// observe takes in what has happened to an engine.
func (x *lifecycles) observe(e control.Event) {
	if e.Kind == control.Changed {
		x.engines.options.Log.Info("the engine's state was changed from outside", "replica", x.name(e.Replica), "state", e.State, "was", x.ledger.Placed(e.Replica))
	}
	x.runner.Observe(e)
}

// ended reports an action of the actuator's.
func (x *lifecycles) ended(a control.Action, took time.Duration, err error) {
	x.metrics.ended(a, took, err)
	if x.onEnded != nil {
		x.onEnded(a.Replica, err)
	}
	if err != nil {
		x.engines.options.Log.Warn("replica action failed", "replica", x.name(a.Replica), "action", a.Verb, "took", took, "error", err)
		return
	}
	x.engines.options.Log.Info("replica action done", "replica", x.name(a.Replica), "action", a.Verb, "took", took)
}

// polled reports engines that do not say what they have, when that begins and ends.
func (x *lifecycles) polled(replicas []int, err error) {
	was := x.metrics.polled(replicas, err)
	switch {
	case err != nil && was:
		x.engines.options.Log.Warn("an engine does not report the states of its models", "replica", x.name(replicas[0]), "error", err)
	case err == nil && !was:
		x.engines.options.Log.Info("an engine reports the states of its models", "replica", x.name(replicas[0]))
	}
}

func (x *lifecycles) name(replica int) string { return x.engines.table.Replicas[replica].Name }

// woken follows the controller: replicas that are placed elsewhere than before are
// logged, and those who wait look again.
func (x *lifecycles) woken() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, was := range x.placed {
		now := x.ledger.Placed(i)
		if now == was {
			continue
		}
		x.placed[i] = now
		x.engines.options.Log.Info("replica placed", "replica", x.name(i), "state", now, "was", was)
		switch now {
		case fleet.Cold:
			x.engines.options.Replaced(i) // what is loaded next may have others
			x.lost(i)
		case fleet.Warm:
			x.lost(i)
		case fleet.Up:
			x.engines.options.Found(i)
		}
		// Whether it is listed was asked of a model that is not loaded, or not yet.
		x.engines.health.listed(i, "")
	}
	close(x.turn)
	x.turn = make(chan struct{})
}

// lost has what the replica's engine was given, and will not answer without its model, tried
// elsewhere. An order to sleep or unload waits until there is none.
func (x *lifecycles) lost(replica int) {
	if n := x.engines.options.Lost(replica); n > 0 {
		x.engines.options.Log.Warn("replica is not loaded: what it has not begun to answer is tried elsewhere", "replica", x.name(replica), "requests", n)
	}
}

// silentFor bounds how long a replica may have requests and no progress until its engine is asked
// whether it still has its model.
const silentFor = time.Second

// watchSilent asks the engines of silent replicas, until the context ends.
func (x *lifecycles) watchSilent(ctx context.Context) {
	n := len(x.engines.table.Replicas)
	signs, work := make([]uint64, n), make([]bool, n)
	tick := time.NewTicker(silentFor)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for i := range n {
			sign, has := x.engines.health.monitor.Signs(i), x.ledger.InFlightOn(i) > 0
			if has && work[i] && sign == signs[i] && x.engines.loaded(i) {
				x.actuator.Poll(i) // of one that nothing drives there is nothing to ask
			}
			signs[i], work[i] = sign, has
		}
	}
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

// Lifecycles are the statuses of all replicas' models.
func (e *Engines) Lifecycles() []LifecycleStatus {
	x := e.lifecycle
	list := make([]LifecycleStatus, len(e.table.Replicas))
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
	if b := x.engines.options.Backends[replica]; b.Lifecycle != nil && x.actuator.Driven(replica) {
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

// Rests returns the state in which the replica is placed, and when the last action on it ended; zero before one has.
func (e *Engines) Rests(replica int) (is fleet.State, since time.Duration) {
	e.lifecycle.runner.Look(func() {
		s := e.lifecycle.controller.Status(replica)
		is, since = s.Placed, s.Ended
	})
	return is, since
}

// Order has the replica brought to where the verb leads. It reports whether anything is
// to be done. Level is that of a sleep; 0 is the first.
func (e *Engines) Order(replica int, v control.Verb, level int) (begun bool, err error) {
	x := e.lifecycle
	x.runner.Do(func() { begun, err = x.want(replica, v, level) })
	return begun, err
}

// want is Order within the runner.
func (x *lifecycles) want(replica int, v control.Verb, level int) (bool, error) {
	if err := x.engines.StandsBy(); err != nil && x.actuator.Driven(replica) {
		return false, err
	}
	placed, target, name := x.ledger.Placed(replica), v.State(), x.name(replica)
	needed := v
	if v == control.Load && placed == fleet.Warm {
		needed = control.Wake
	}
	if err := x.actuator.Refuses(replica, agents.Order{Verb: needed, Level: cmp.Or(level, 1)}); err != nil {
		return false, Unsupported{err}
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

// Unsupported is the error of a verb that a replica's engine cannot do in any state.
type Unsupported struct{ error }

// Wait returns once nothing is being done about the replica, with why its order was not
// followed; ended is false if the context was over before that.
func (e *Engines) Wait(ctx context.Context, replica int) (ended bool, err error) {
	x := e.lifecycle
	for {
		next := x.next()
		var status lifecycle.Status
		x.runner.Look(func() { status = x.controller.Status(replica) })
		if status.Doing == "" {
			return true, status.Err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false, nil
		}
	}
}
