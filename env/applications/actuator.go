package applications

import (
	"fmt"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/control"
)

// Act implements [control.Actuator]. A server that is lost does not answer: if its port
// refuses, the action has failed at once, else it waits there.
func (sim *simulation) Act(a control.Action) error {
	app, _, on := sim.System.Of(a.Replica)
	if a.Epoch <= sim.newest {
		sim.fault = fmt.Errorf("%v has the epoch %d, and one of %d came before it", a, a.Epoch, sim.newest)
	}
	sim.newest = a.Epoch
	switch a.Verb {
	case control.Activate:
		sim.activate(app, a.Replica)
	case control.Load, control.Unload:
		s := &sim.servers[on]
		if s.down && s.gone {
			sim.controller.Observe(control.Event{At: sim.now, Kind: control.ActionFailed, Replica: a.Replica, Host: on, Action: a, Reason: "its agent refuses connections"})
			return nil
		}
		sim.actions = append(sim.actions, action{Action: a, server: on})
		s.loads = append(s.loads, len(sim.actions)-1)
		sim.start(on)
	}
	return nil
}

// start begins the actions for which the server has a loader.
func (sim *simulation) start(on int) {
	s := &sim.servers[on]
	running := 0
	for _, k := range s.loads {
		a := &sim.actions[k]
		if !a.began && running < sim.Options.Loaders {
			a.began = true
			if sim.prepare(a); !s.down {
				sim.ends(k, a)
			}
		}
		if a.began {
			running++
		}
	}
}

// ends has an action end in the time that it takes.
func (sim *simulation) ends(k int, a *action) {
	a.ends = sim.now + sim.takes(a)
	sim.simulator.Schedule(env.Item{At: a.ends, Kind: actionEnds, Index: k})
}

// prepare checks that the server has what the action needs.
func (sim *simulation) prepare(a *action) {
	s := &sim.servers[a.server]
	if a.Verb == control.Unload {
		delete(s.loaded, a.Replica)
		app, _, _ := sim.System.Of(a.Replica)
		if sim.apps[app].target == a.Replica {
			sim.settle(app)
		}
		return
	}
	if s.loaded[a.Replica] {
		sim.fault = fmt.Errorf("%s is loaded twice", sim.name(a.Replica))
	}
	for r, taken := range sim.System.Taken(a.server, sim.resident(a.server)) {
		if capacity := sim.System.Servers[a.server].Capacity[r]; taken > capacity*(1+1e-6) {
			sim.fault = fmt.Errorf("%s: %g of its %g %s are taken", sim.System.Servers[a.server].Name, taken, capacity, sim.System.Resources[r])
		}
	}
}

// resident lists the instances on a server that are loaded or being loaded.
func (sim *simulation) resident(on int) []int {
	list := sim.held(on)
	for _, k := range sim.servers[on].loads {
		if a := &sim.actions[k]; a.began && a.Verb == control.Load && !slices.Contains(list, a.Replica) {
			list = append(list, a.Replica)
		}
	}
	return list
}

// takes is how long the action takes. A model that is loaded for another application is there at once
// where applications share models.
func (sim *simulation) takes(a *action) time.Duration {
	app, variant, on := sim.System.Of(a.Replica)
	v := &sim.System.Applications[app].Variants[variant]
	if a.Verb == control.Unload {
		return 0
	}
	if sim.System.Shared && v.Model != "" {
		for id := range sim.servers[on].loaded {
			other, form, _ := sim.System.Of(id)
			if sim.System.Applications[other].Variants[form].Model == v.Model {
				return 0
			}
		}
	}
	return v.Load
}

// complete ends an action.
func (sim *simulation) complete(k int) {
	a := &sim.actions[k]
	s := &sim.servers[a.server]
	if a.over || a.ends != sim.now { // gone with its server, or scheduled again
		return
	}
	a.over = true
	s.loads = slices.DeleteFunc(s.loads, func(other int) bool { return other == k })
	if a.Verb == control.Load {
		s.loaded[a.Replica] = true
	}
	sim.observe(a.Verb.Done(), a, "")
	sim.start(a.server)
}

func (sim *simulation) name(instance int) string {
	app, variant, on := sim.System.Of(instance)
	a := &sim.System.Applications[app]
	return fmt.Sprintf("%s of %s on %s", a.Variants[variant].Name, a.Name, sim.System.Servers[on].Name)
}
