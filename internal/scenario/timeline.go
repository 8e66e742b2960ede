package scenario

import (
	"fmt"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/router/lifecycle"
	"gearshift/workloads"
)

// verbs are what the steps of a timeline may do: the states that a replica may be in
// before, and that it is brought into. The first of the former is the one that a replica
// is taken to start in whose first step it is.
var verbs = map[string]struct {
	from []fleet.State
	to   fleet.State
}{
	"load":    {[]fleet.State{fleet.Cold}, fleet.Up},
	"wake":    {[]fleet.State{fleet.Warm}, fleet.Up},
	"undrain": {[]fleet.State{fleet.Draining}, fleet.Up},
	"unload":  {[]fleet.State{fleet.Up, fleet.Draining, fleet.Warm}, fleet.Cold},
	"sleep":   {[]fleet.State{fleet.Up, fleet.Draining}, fleet.Warm},
	"drain":   {[]fleet.State{fleet.Up}, fleet.Draining},
}

// order is one step of a timeline for a replica of a fleet.
type order struct {
	workloads.Step
	replica int
	target  fleet.State
}

// orders returns the steps for the replicas of a table, and the states in which these start.
// Of the variants that the table does not have, a static policy's, nothing is wanted.
func (s *Scenario) orders(steps []workloads.Step, t *fleet.Table) (list []order, initial []fleet.State, err error) {
	states := map[string]fleet.State{} // so far, by name
	index := func(t *fleet.Table, name string) int {
		return slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool { return r.Name == name })
	}
	all := s.Table()
	for _, r := range t.Replicas {
		initial = append(initial, r.Initial)
	}
	for _, step := range steps {
		verb := verbs[step.Verb]
		if index(all, step.Replica) < 0 {
			return nil, nil, fmt.Errorf("+%v: no replica %q; want VARIANT@HOST, such as %s", step, step.Replica, all.Replicas[0].Name)
		}
		i := index(t, step.Replica)
		is, met := states[step.Replica]
		if !met {
			is = verb.from[0]
		}
		if !slices.Contains(verb.from, is) {
			return nil, nil, fmt.Errorf("+%v: %s is %v by then; want it %v", step, step.Replica, is, verb.from[0])
		}
		states[step.Replica] = verb.to
		if i < 0 {
			continue
		}
		if !met && is == fleet.Draining {
			list = append([]order{{workloads.Step{Verb: "drain", Replica: step.Replica}, i, fleet.Draining}}, list...)
		} else if !met {
			initial[i] = is
		}
		list = append(list, order{step, i, verb.to})
	}
	return list, initial, nil
}

// timeline is a [control.Controller] that has the lifecycle's do what a list says, in order
// of its times.
type timeline struct {
	*lifecycle.Controller
	orders []order
	// fail is told of what cannot be done. Nil drops it.
	fail func(error)
}

// patience is how long a replica may take to drain: as long as a run.
const patience = 1000 * time.Hour

// Wake implements [control.Controller].
func (t *timeline) Wake(now time.Duration) time.Duration {
	for len(t.orders) > 0 && t.orders[0].At <= now {
		o := t.orders[0]
		t.orders = t.orders[1:]
		if err := t.Want(o.replica, o.target, lifecycle.Order{DrainTimeout: patience}); err != nil && t.fail != nil {
			t.fail(fmt.Errorf("cannot %s at %v: %w", o.Verb, now, err))
		}
	}
	next := t.Controller.Wake(now)
	if len(t.orders) > 0 {
		next = min(next, t.orders[0].At)
	}
	return next
}

// probeEvery is how often hosts are probed where the scenario's server does not probe.
const probeEvery = 2 * time.Second

// disturb has a simulated fleet change as the workload says: its steps go through the
// lifecycle that the server has, and evidence through its health monitor.
func (s *Scenario) disturb(c *env.Config, d workloads.Perturbation) error {
	orders, initial, err := s.orders(d.Steps(), c.Table)
	if err != nil {
		return err
	}
	c.LoadTimes = s.loadTimes(c)
	if len(orders) > 0 {
		c.Initial = initial
	}
	watch := s.Serving.Server.Health
	if d.Evidence {
		if c.Evidence.Probe = watch.ProbeInterval; c.Evidence.Probe == 0 {
			c.Evidence.Probe = probeEvery
		}
	}
	if len(orders) == 0 && !d.Evidence {
		return nil
	}
	n := len(c.Table.Replicas)
	c.Controllers = func(w env.ControlAccess) (list []control.Controller) {
		if len(orders) > 0 {
			list = append(list, &timeline{Controller: lifecycle.New(w.Ledger, w.Actuator, lifecycle.Options{}), orders: orders, fail: w.Fail})
		}
		if d.Evidence {
			list = append(list, &health.Controller{Monitor: health.New(watch, w.Ledger, make([]string, n), w.Seed)})
		}
		return list
	}
	return nil
}

// loadBytesPerS is how fast weights come from a disk where no model says how long its load
// takes.
const loadBytesPerS = 1e9

// loadTimes returns how long the replicas take to load by the bytes of their weights.
func (s *Scenario) loadTimes(c *env.Config) []time.Duration {
	times := make([]time.Duration, len(c.Profiles))
	for i, p := range c.Profiles {
		times[i] = time.Duration(float64(p.WeightBytes) / loadBytesPerS * float64(time.Second))
	}
	return times
}

// Disturb has the episodes of a simulated fleet disturbed as the training load says, if it
// does.
func (s *Scenario) Disturb(c *env.Config) error {
	d := s.Training.Load.Disturbances
	if d.Share == 0 {
		return nil
	}
	t := c.Table
	if len(t.Hosts) < 2 {
		return fmt.Errorf("training.load.disturbances: the fleet has %d host; want two at least, since one may be lost", len(t.Hosts))
	}
	c.LoadTimes = s.loadTimes(c)
	loads := slices.Clone(c.LoadTimes)
	for i, r := range t.Replicas {
		if m := t.ModelOf(r.Variant); m >= 0 && t.Models[m].Load > 0 {
			loads[i] = t.Models[m].Load
		}
	}
	c.DrawLosses = func(seed uint64) (losses []env.HostLoss) {
		drawn, _ := d.Draw(t, loads, seed)
		for _, l := range drawn {
			losses = append(losses, env.HostLoss(l))
		}
		return losses
	}
	c.Controllers = func(w env.ControlAccess) []control.Controller {
		_, steps := d.Draw(t, loads, w.Seed)
		if len(steps) == 0 {
			return nil
		}
		var orders []order
		for _, step := range steps {
			i := slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool { return r.Name == step.Replica })
			orders = append(orders, order{step, i, verbs[step.Verb].to})
		}
		// What still drains or loads when its next step comes goes on with that.
		return []control.Controller{&timeline{Controller: lifecycle.New(w.Ledger, w.Actuator, lifecycle.Options{}), orders: orders}}
	}
	return nil
}
