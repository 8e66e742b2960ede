package failover

import (
	"fmt"
	"slices"
	"time"

	"gearshift/env/agenda"
	"gearshift/router/control"
)

// Act implements [control.Actuator]. A server that is lost does not answer: if its port
// refuses, the action has failed at once, else it waits there.
func (w *world) Act(a control.Action) error {
	app, _, on := w.System.Of(a.Replica)
	if a.Epoch <= w.newest {
		w.fault = fmt.Errorf("%v has the epoch %d, and one of %d came before it", a, a.Epoch, w.newest)
	}
	w.newest = a.Epoch
	switch a.Verb {
	case control.Activate:
		w.activate(app, a.Replica)
	case control.Load, control.Unload:
		s := &w.servers[on]
		if s.down > 0 && !s.silent {
			w.controller.Observe(control.Event{At: w.now, Kind: control.ActionFailed, Replica: a.Replica, Host: on, Action: a, Reason: "its agent refuses connections"})
			return nil
		}
		w.actions = append(w.actions, action{Action: a, server: on})
		s.loads = append(s.loads, len(w.actions)-1)
		w.begin(on)
	}
	return nil
}

// begin begins the actions for which the server has a loader.
func (w *world) begin(on int) {
	s := &w.servers[on]
	running := 0
	for _, k := range s.loads {
		a := &w.actions[k]
		if !a.began && running < w.Options.Loaders {
			a.began = true
			if w.prepare(a); s.down == 0 {
				w.schedule(k, a)
			}
		}
		if a.began {
			running++
		}
	}
}

// schedule puts the end of an action on the agenda.
func (w *world) schedule(k int, a *action) {
	a.ends = w.now + w.takes(a)
	w.agenda.Add(agenda.Item{At: a.ends, Kind: actionEnds, Index: k})
}

// prepare checks that the server has what the action needs.
func (w *world) prepare(a *action) {
	s := &w.servers[a.server]
	if a.Verb == control.Unload {
		delete(s.loaded, a.Replica)
		app, _, _ := w.System.Of(a.Replica)
		if w.apps[app].target == a.Replica {
			w.settle(app)
		}
		return
	}
	if s.loaded[a.Replica] {
		w.fault = fmt.Errorf("%s is loaded twice", w.name(a.Replica))
	}
	for r, taken := range w.System.Taken(a.server, w.resident(a.server)) {
		if capacity := w.System.Servers[a.server].Capacity[r]; taken > capacity*(1+1e-6) {
			w.fault = fmt.Errorf("%s: %g of its %g %s are taken", w.System.Servers[a.server].Name, taken, capacity, w.System.Resources[r])
		}
	}
}

// resident lists the instances on a server that are loaded or being loaded.
func (w *world) resident(on int) []int {
	list := w.held(on)
	for _, k := range w.servers[on].loads {
		if a := &w.actions[k]; a.began && a.Verb == control.Load && !slices.Contains(list, a.Replica) {
			list = append(list, a.Replica)
		}
	}
	return list
}

// takes is how long the action takes. A model that is loaded for another application is there at once
// where applications share models.
func (w *world) takes(a *action) time.Duration {
	app, variant, on := w.System.Of(a.Replica)
	v := &w.System.Applications[app].Variants[variant]
	if a.Verb == control.Unload {
		return 0
	}
	if w.System.Shared && v.Model != "" {
		for id := range w.servers[on].loaded {
			other, form, _ := w.System.Of(id)
			if w.System.Applications[other].Variants[form].Model == v.Model {
				return 0
			}
		}
	}
	return v.Load
}

// complete ends an action.
func (w *world) complete(k int) {
	a := &w.actions[k]
	s := &w.servers[a.server]
	if a.over || a.ends != w.now { // gone with its server, or scheduled again
		return
	}
	a.over = true
	s.loads = slices.DeleteFunc(s.loads, func(other int) bool { return other == k })
	if a.Verb == control.Load {
		s.loaded[a.Replica] = true
	}
	w.observe(a.Verb.Done(), a, "")
	w.begin(a.server)
}

func (w *world) name(instance int) string {
	app, variant, on := w.System.Of(instance)
	a := &w.System.Applications[app]
	return fmt.Sprintf("%s of %s on %s", a.Variants[variant].Name, a.Name, w.System.Servers[on].Name)
}
