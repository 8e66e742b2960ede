package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/backend"
	"gearshift/serving/discovery"
	"gearshift/serving/discovery/settings"
	"gearshift/serving/picker"
)

// sources returns the configured source of engines and its kind.
type sources func(c *settings.Config, groups []discovery.Group, log *slog.Logger) (kind string, s discovery.Source, err error)

// usualSources returns the configured source.
func usualSources(c *settings.Config, groups []discovery.Group, log *slog.Logger) (string, discovery.Source, error) {
	return discovery.NewSource(c, groups, scenario.Decode, log)
}

// rehearsedSources returns a source that lists nothing.
func rehearsedSources(*settings.Config, []discovery.Group, *slog.Logger) (string, discovery.Source, error) {
	return "none", new(discovery.Memory), nil
}

// newDiscovery returns the module that assigns engines to the scenario's slots; nil if discovery is off. With a picker
// it leaves slots empty whose engines a gateway cannot reach.
func (x *assembly) newDiscovery() (*discovery.Module, error) {
	s, t := x.s, x.routing.core.Table()
	c := scenario.Of[settings.Config](s)
	if !c.On() {
		return nil, nil
	}
	groups := groupsOf(s, t, c.Labels.Variant)
	kind, source, err := x.sources(c, groups, x.log)
	if err != nil {
		return nil, err
	}
	backends := slices.Clone(x.options.Backends)
	at := func(replica int) *slot { return backends[replica].Transport.(*slot) }
	return discovery.New(discovery.Options{
		Source: source, Kind: kind, Groups: groups, Table: t, Log: x.log,
		Connect: func(replica int, address string) (func(), error) {
			if x.picker != nil && !picker.Reachable(address) {
				return nil, fmt.Errorf("a gateway looks up no names, and %q is one; want IP:PORT", address)
			}
			endpoint := s.Serving.Upstreams[t.Replicas[replica].Name]
			endpoint.URL = "http://" + address
			if endpoint.TLS.On() {
				endpoint.URL = "https://" + address
			}
			u, err := backend.NewUpstream(upstreamConfig(s, endpoint))
			return func() { at(replica).enter(u) }, err
		},
		Disconnect: func(replica int) { at(replica).leave() },
	}), nil
}

// groupsOf returns the scenario's slots, grouped by the entries of its replicas. Label is the key of the label that
// names a pod's variant.
func groupsOf(s *scenario.Scenario, t *fleet.Table, label string) (groups []discovery.Group) {
	index := map[string]int{}
	for i := range t.Replicas {
		index[t.Replicas[i].Name] = i
	}
	for i := range s.Replicas {
		p := &s.Replicas[i]
		if !p.On() {
			continue
		}
		g := discovery.Group{Name: p.Entry(), Variant: p.Variant, Host: p.Host, Selector: p.Selector, Label: label, Port: p.Port}
		for _, host := range p.Hosts {
			g.Slots = append(g.Slots, discovery.Slot{Replica: index[p.Entry()+"@"+host], Host: host})
		}
		groups = append(groups, g)
	}
	return groups
}

// discovers follows the source of engines until the returned function is called.
func discovers(ctx context.Context, m *discovery.Module) (end func()) {
	if m == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // engines come and go while requests drain, too
	var done sync.WaitGroup
	done.Go(func() { m.Run(ctx) })
	return func() {
		stop()
		done.Wait()
	}
}
