package app

import (
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
