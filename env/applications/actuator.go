package applications

import (
	"fmt"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/control"
	"gearshift/router/failover"
)

// Act implements [failover.Actuator]. A host that is lost does not answer: if its port
// refuses, the action has failed at once, else it waits there.
func (sim *simulation) Act(a failover.Order) error {
	on := a.Host
	if a.Epoch <= sim.newest {
		sim.fault = fmt.Errorf("%v of %s has the epoch %d, and one of %d came before it", a.Verb, sim.name(a.Assignment), a.Epoch, sim.newest)
	}
	sim.newest = a.Epoch
	switch a.Verb {
	case control.Activate:
		sim.activate(a.Assignment)
	case control.Load, control.Unload:
		s := &sim.hosts[on]
		if s.down && s.gone {
			sim.controller.Ended(a, control.ActionFailed, "its agent refuses connections")
			return nil
		}
		sim.actions = append(sim.actions, action{Order: a})
		s.loads = append(s.loads, len(sim.actions)-1)
		sim.start(on)
	}
	return nil
}

// start begins the actions for which the host has a loader.
func (sim *simulation) start(on int) {
	s := &sim.hosts[on]
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

// prepare checks that the host has what the action needs.
func (sim *simulation) prepare(a *action) {
	s := &sim.hosts[a.Host]
	if a.Verb == control.Unload {
		delete(s.loaded, a.Assignment)
		if sim.apps[a.App].target == a.Assignment {
			sim.settle(a.App)
		}
		return
	}
	if s.loaded[a.Assignment] {
		sim.fault = fmt.Errorf("%s is loaded twice", sim.name(a.Assignment))
	}
	for r, taken := range sim.Problem.Taken(a.Host, sim.resident(a.Host)) {
		if capacity := sim.Problem.Capacity[a.Host][r]; taken > capacity*(1+1e-6) {
			sim.fault = fmt.Errorf("%s: %g of its %g %s are taken", sim.Problem.Hosts[a.Host].Name, taken, capacity, sim.Problem.Resources[r])
		}
	}
}

// resident lists the assignments on a host that are loaded or being loaded.
func (sim *simulation) resident(on int) []failover.Assignment {
	list := sim.held(on)
	for _, k := range sim.hosts[on].loads {
		if a := &sim.actions[k]; a.began && a.Verb == control.Load && !slices.Contains(list, a.Assignment) {
			list = append(list, a.Assignment)
		}
	}
	return list
}

// takes is how long the action takes. A model that is loaded for another application is there at once
// where applications share models.
func (sim *simulation) takes(a *action) time.Duration {
	v := sim.Problem.Variant(a.Assignment)
	if a.Verb == control.Unload {
		return 0
	}
	if sim.Problem.Shared && v.Model != "" {
		for other := range sim.hosts[a.Host].loaded {
			if sim.Problem.Variant(other).Model == v.Model {
				return 0
			}
		}
	}
	return v.Load
}

// complete ends an action.
func (sim *simulation) complete(k int) {
	a := &sim.actions[k]
	s := &sim.hosts[a.Host]
	if a.over || a.ends != sim.now { // gone with its host, or scheduled again
		return
	}
	a.over = true
	s.loads = slices.DeleteFunc(s.loads, func(other int) bool { return other == k })
	if a.Verb == control.Load {
		s.loaded[a.Assignment] = true
	}
	sim.controller.Ended(a.Order, a.Verb.Done(), "")
	sim.start(a.Host)
}

func (sim *simulation) name(a failover.Assignment) string {
	return fmt.Sprintf("%s of %s", sim.Problem.Name(a), sim.Problem.Applications[a.App].Name)
}
