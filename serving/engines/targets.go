package engines

import (
	"net"
	"net/url"

	"gearshift/router/health"
	"gearshift/serving/config"
	"gearshift/serving/engines/address"
	"gearshift/serving/engines/gauges"
)

// This file groups replicas by the servers that are probed and read.

// Server is a [config.Backend]'s transport that can be asked for its server's health and gauges.
type Server interface {
	Getter // on a new connection each time
	// Base returns the server's root.
	Base() *url.URL
}

// Slot is a [Server] whose engine may leave or be replaced.
type Slot interface {
	Server
	// Engine identifies the present engine; zero means none, and then Base is empty.
	Engine() uint64
}

// servers groups the replicas by the server that they are behind.
func (e *Engines) servers() []Target {
	var list []Target
	index := map[string]int{}
	for i, b := range e.options.Backends {
		p, ok := b.Transport.(Server)
		if !ok {
			continue
		}
		if slot, ok := p.(Slot); ok {
			list = append(list, Target{Server: p, Replicas: []int{i}, Models: []string{b.Model}, Engine: slot.Engine})
			continue
		}
		root := rootOf(p)
		n, ok := index[root]
		if !ok {
			n = len(list)
			index[root] = n
			list = append(list, Target{Server: p})
		}
		list[n].Replicas, list[n].Models = append(list[n].Replicas, i), append(list[n].Models, b.Model)
	}
	return list
}

// rootOf identifies a server: those below one root may have lists of their own.
func rootOf(p Server) string {
	if at, ok := p.(interface{ API() *url.URL }); ok {
		return at.API().String()
	}
	return p.Base().String()
}

// addressOf returns the backend's present address, host:port, and the host alone; both are empty for one within this
// process, and for a slot without an engine.
func addressOf(b config.Backend) (at, host string) {
	p, ok := b.Transport.(Server)
	if !ok {
		return "", ""
	}
	if base := p.Base(); address.Socket(base.Host) == "" {
		host = base.Hostname()
	} else {
		host = "localhost"
	}
	return AddressOf(p), host
}

// AddressOf returns a server's present address, host:port; empty for a slot without an engine.
func AddressOf(p Server) string {
	base := p.Base()
	if base.Host == "" {
		return ""
	}
	if address.Socket(base.Host) != "" {
		return net.JoinHostPort(base.Host, "80")
	}
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	return net.JoinHostPort(base.Hostname(), port)
}

// addresses returns the present addresses of the backends.
func (e *Engines) addresses() []string {
	list := make([]string, len(e.options.Backends))
	for i, b := range e.options.Backends {
		list[i], _ = addressOf(b)
	}
	return list
}

// siblings returns, for each replica, the replicas of its host, including itself.
func (e *Engines) siblings() [][]int {
	list := make([][]int, len(e.options.Backends))
	for i := range list {
		_, own := addressOf(e.options.Backends[i])
		for j := range list {
			_, host := addressOf(e.options.Backends[j])
			if e.table.Replicas[i].Host == e.table.Replicas[j].Host || own != "" && own == host {
				list[i] = append(list[i], j)
			}
		}
	}
	return list
}

// watch makes the prober and the scraper. They begin with [Engines.Start].
func (e *Engines) watch() {
	targets := e.servers()
	var sources []gauges.Source
	for i := range targets {
		t := &targets[i]
		t.Named = func(n int) string { return e.options.Backends[t.Replicas[n]].Named() }
		sources = append(sources, gauges.Source{Server: t.Server, Replicas: t.Replicas, Models: t.Models, Named: t.Named, Loaded: e.loaded, Engine: t.Engine})
	}
	if len(targets) > 0 {
		e.health.prober = NewProber(e.options.Health, targets, engineSeed, func(t Target, f health.Finding) {
			e.moving.RLock()
			defer e.moving.RUnlock()
			if t.still() {
				e.metrics.probed(t.Replicas, f)
				e.health.probed(t.Replicas, f)
			}
		})
		e.health.prober.OnList = e.listed
	}
	e.scraper = gauges.New(e.options.Gauges, e.signals, sources, e.counts, e.options.Clock, engineSeed, e.gaugesRead)
	e.scraper.Loads = e.options.Loads
}

// listed records the models that a server has.
func (e *Engines) listed(t Target, notes []string, contexts []int) {
	e.moving.RLock()
	defer e.moving.RUnlock()
	if !t.still() {
		return
	}
	for n, i := range t.Replicas {
		if !e.loaded(i) {
			notes[n] = "" // a model that is not loaded may be missing
		}
		e.health.listed(i, notes[n])
		e.options.Context(i, contexts[n])
	}
}
