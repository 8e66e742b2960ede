package scenario

import (
	"maps"
	"reflect"
	"slices"

	"gearshift/router/fleet"
)

// Differences names the sections in which two scenarios differ and which a router
// is built on: they take a restart. Replicas that o leaves out, or has in another state, are
// not among them: see [Scenario.StatesIn]. Those of the serving section that the server
// itself owns are not among them, nor is what only training and evaluation read.
func (s *Scenario) Differences(o *Scenario) []string {
	var list []string
	for _, section := range []struct {
		key  string
		a, b any
	}{
		{"tasks", s.Tasks, o.Tasks},
		{"variants", s.Variants, o.Variants},
		{"hosts", s.steadyHosts(), o.steadyHosts()},
		{"replicas", nil, o.besides(s)},
		{"profiles", s.Models, o.Models},
		{"engine", s.Engine, o.Engine},
		{"workload", s.declared(), o.declared()},
		{"serving.balancer", s.Serving.Balancer, o.Serving.Balancer},
		{"serving.fallback", s.Serving.Fallback, o.Serving.Fallback},
		{"serving.max_in_flight", s.Serving.MaxInFlight, o.Serving.MaxInFlight},
		{"serving.backend", s.Serving.Backend, o.Serving.Backend},
		{"serving.models", s.Serving.Models, o.Serving.Models},
	} {
		if !reflect.DeepEqual(section.a, section.b) {
			list = append(list, section.key)
		}
	}
	for _, d := range s.sections {
		list = append(list, d.changes(s, o).restart...)
	}
	return list
}

// steadyHosts returns the hosts without what only the simulator reads of them.
func (s *Scenario) steadyHosts() []Host {
	hosts := slices.Clone(s.Hosts)
	for i := range hosts {
		hosts[i].Slowdown = nil
	}
	return hosts
}

// besides names the replicas that s has and o has not, or with other memory; nil if there are
// none.
func (s *Scenario) besides(o *Scenario) any {
	known := map[string]Memory{}
	for _, p := range o.placedReplicas() {
		known[o.replicaName(p)] = o.Replicas[p.placement].Memory
	}
	var list []string
	for _, p := range s.placedReplicas() {
		if memory, ok := known[s.replicaName(p)]; !ok || memory != s.Replicas[p.placement].Memory {
			list = append(list, s.replicaName(p))
		}
	}
	if list == nil {
		return nil
	}
	return list
}

// StatesIn returns the states in which o wants the replicas of s, by the index of s: cold where o
// does not list them.
func (s *Scenario) StatesIn(o *Scenario) []fleet.State {
	wanted := map[string]fleet.State{}
	for _, p := range o.placedReplicas() {
		wanted[o.replicaName(p)] = p.state
	}
	var states []fleet.State
	for _, p := range s.placedReplicas() {
		state, ok := wanted[s.replicaName(p)]
		if !ok {
			state = fleet.Cold
		}
		states = append(states, state)
	}
	return states
}

// Keep has s go on with what o says of the engines of replicas that only o lists: where they
// answer, and what is loaded for them.
func (s *Scenario) Keep(o *Scenario) {
	var names []string
	for _, p := range s.placedReplicas() {
		names = append(names, s.replicaName(p))
	}
	gone := map[string]bool{}
	for _, p := range o.placedReplicas() {
		if name := o.replicaName(p); !slices.Contains(names, name) {
			gone[name] = true
		}
	}
	keep(&s.Serving.Upstreams, o.Serving.Upstreams, gone)
	keep(&s.Serving.Models, o.Serving.Models, gone)
}

// keep copies the entries of the names into a map that lacks them.
func keep[T any](into *map[string]T, from map[string]T, names map[string]bool) {
	for name, value := range from {
		if _, ok := (*into)[name]; !ok && names[name] {
			if *into = maps.Clone(*into); *into == nil {
				*into = map[string]T{}
			}
			(*into)[name] = value
		}
	}
}
