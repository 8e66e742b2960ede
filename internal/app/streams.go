package app

import (
	"cmp"
	"fmt"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/streams"
)

// clientsShown bounds the streaming clients that the page shows.
const clientsShown = 30

// withStreams adds what serves streaming clients, which the page among the modules shows.
func withStreams(modules []serving.Module, m *streams.Module) []serving.Module {
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok {
			page.Streams = func() any { return m.State(clientsShown) }
		}
	}
	return append(modules, m)
}

// serveStreams adds what serves streaming clients, if the scenario has them.
func (x *assembly) serveStreams(modules []serving.Module, l *fleet.Ledger) ([]serving.Module, error) {
	c, on := x.s.Streams()
	if !on {
		if x.o.HTTP3 != "" {
			return nil, fmt.Errorf("--http3 %s: %s has no streaming clients; want a section serving.streams, or no such flag", x.o.HTTP3, x.o.Scenario)
		}
		return modules, nil
	}
	c.HTTP3 = cmp.Or(x.o.HTTP3, c.HTTP3)
	x.streams = streams.New(streams.Options{Config: c, Ledger: l, Log: x.log})
	return withStreams(modules, x.streams), nil
}
