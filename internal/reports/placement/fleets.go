package placement

import (
	"fmt"
	"slices"
	"strings"

	"gearshift/internal/scenario"
	"gearshift/internal/training/placements"
	"gearshift/router/placement/layouts"
)

// law sets how long engines sleep, wake and load. Loads take as long as wakes where what sleeps is not kept in memory.
type law struct {
	placements.Law
	loads bool
}

// laws returns those that others have measured: docs/guides/loading-models.md has the sources.
func laws() []law {
	same := func(name string, loads bool, t placements.Times) law {
		return law{placements.Law{Name: name, Small: t, Large: t}, loads}
	}
	return []law{
		same("level 1, small: .3 s, .8 s", false, placements.Times{Sleep: 300, Wake: 800, First: 450}),
		same("level 1, large: .9 s, 2.6 s", false, placements.Times{Sleep: 900, Wake: 2600, First: 930}),
		same("reload, 10 s", true, placements.Times{Sleep: 500, Wake: 10_000, First: 450}),
		{placements.Law{
			Name:  "reload, 38 to 58 s",
			Small: placements.Times{Sleep: 500, Wake: 37_600, First: 450}, Large: placements.Times{Sleep: 500, Wake: 58_100, First: 930},
		}, true},
		same("cold pod, 3 minutes", true, placements.Times{Sleep: 500, Wake: 180_000, First: 450}),
	}
}

// on returns the scenario under the law.
func (l *law) on(s *scenario.Scenario) *scenario.Scenario {
	x := l.On(s)
	for i := range x.Weights {
		if m := &x.Weights[i]; l.loads {
			m.LoadMS = m.WakeMS
		}
	}
	return x
}

// fleet is one way to have the scenario's hosts.
type fleet struct {
	name    string
	decides string // a rule or policy; empty: its layouts stay
	layout  int    // number of the hosts' layouts that stay
	alone   string // the size that is alone on the fleet; empty: the sizes share it
}

// stays is the index of the fleet whose layouts are those of the start.
const stays = 0

// fleets returns the fleets that stay, that of the start first, and those on which something decides.
func fleets(s *scenario.Scenario, deciders []string) ([]fleet, error) {
	t := s.Table()
	o, _ := s.Placing(t)
	first, err := layouts.List(t, 0, o.Limits)
	if err != nil {
		return nil, err
	}
	var list []fleet
	for i, l := range first {
		var names []string
		start := true
		for _, r := range l.Up {
			name, _, _ := strings.Cut(t.Replicas[r].Name, "@")
			names = append(names, name)
			start = start && s.Table().Replicas[r].Initial.String() == "up"
		}
		f := fleet{name: "fixed: " + strings.Join(names, " + "), layout: i}
		if start {
			list = slices.Insert(list, 0, f)
		} else {
			list = append(list, f)
		}
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("scenario %s: its first host has one layout, so that there is nothing to decide", s.Name)
	}
	for _, v := range s.Variants {
		list = append(list, fleet{name: v.Name + " alone", alone: v.Name})
	}
	for _, d := range deciders {
		list = append(list, fleet{name: d, decides: d})
	}
	return list, nil
}

// starting returns the scenario with its hosts in the layouts of that number, where they have so many.
func starting(s *scenario.Scenario, layout int) (*scenario.Scenario, error) {
	t, x := s.Table(), *s
	o, _ := s.Placing(t)
	up := map[string]bool{}
	for h := range t.Hosts {
		list, err := layouts.List(t, h, o.Limits)
		if err != nil {
			return nil, err
		}
		for _, r := range list[min(layout, len(list)-1)].Up {
			up[t.Replicas[r].Name] = true
		}
	}
	x.Replicas = nil
	for _, p := range s.Replicas {
		name := p.Name
		if name == "" {
			name = p.Variant
		}
		for _, host := range p.Hosts {
			one := p
			if one.Hosts, one.State = []string{host}, "warm"; up[name+"@"+host] {
				one.State = "up"
			}
			x.Replicas = append(x.Replicas, one)
		}
	}
	return &x, nil
}
