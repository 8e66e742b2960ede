package scenario

import (
	"reflect"
	"slices"
)

// Differences names the sections in which two scenarios differ and which a router
// is built on: they take a restart. Those of the serving section that the server
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
		{"replicas", s.Replicas, o.Replicas},
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

// steadyHosts are the hosts without what only the simulator reads of them.
func (s *Scenario) steadyHosts() []Host {
	hosts := slices.Clone(s.Hosts)
	for i := range hosts {
		hosts[i].Slowdown = nil
	}
	return hosts
}
