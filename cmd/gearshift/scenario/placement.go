package scenario

import (
	"slices"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// initial is the state of the placement's replicas at the start; [fleet.Down] if it is
// none.
func (p *Placement) initial() fleet.State {
	if p.State == "" {
		return fleet.Up
	}
	for _, s := range initialStates {
		if p.State == s.String() {
			return s
		}
	}
	return fleet.Down
}

// initialStates are those in which a replica can be at the start.
var initialStates = []fleet.State{fleet.Up, fleet.Cold, fleet.Warm}

func (s *Scenario) hosts() []fleet.Host {
	hosts := make([]fleet.Host, len(s.Hosts))
	for i, h := range s.Hosts {
		hosts[i] = fleet.Host{Name: h.Name, Site: h.Site, Memory: int64(h.Memory), Compute: h.Compute * 1e12, Bandwidth: h.Bandwidth * 1e9}
	}
	return hosts
}

func (s *Scenario) models() []fleet.Model {
	models := make([]fleet.Model, len(s.Weights))
	for i, m := range s.Weights {
		models[i] = fleet.Model{Name: m.Name, Memory: int64(m.Memory), Load: profile.Duration(m.LoadMS), Version: m.Version}
	}
	return models
}

func (s *Scenario) modelNames() []string {
	return namesOf(s.Weights, func(m Model) string { return m.Name })
}

// answers reports whether the variant answers the task.
func (t *Task) answers(variant string) bool {
	_, ok := t.Quality[variant]
	return ok
}

// answersAll reports whether the variant answers every task.
func (s *Scenario) answersAll(variant string) bool {
	return !slices.ContainsFunc(s.Tasks, func(t Task) bool { return !t.answers(variant) })
}
