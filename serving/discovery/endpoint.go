// Package discovery finds the engines behind the slots of a catalogue: a file, Kubernetes or DNS lists their
// addresses, each engine takes a free slot of its variant, and gives it back when it is gone. Policies see slots come
// and go as replicas that are up or not, and their indexes stay.
package discovery

import (
	"context"
	"maps"
	"slices"
)

// Endpoint is an address at which an engine answers, as a source lists it.
type Endpoint struct {
	// ID identifies the engine as long as it lives, such as a pod's UID and port. An engine that replaces another
	// has another ID.
	ID string
	// Name may return with another engine, as the names of a StatefulSet's pods do.
	Name string
	// Address is host:port.
	Address string
	// Variant is that of the engine, or the name of an entry of replicas. Empty: that which its labels select.
	Variant string
	// Host is the host that the engine's is like, or the slot that it wants. Empty: any.
	Host string
	// Labels are those of its pod; nil if it has none.
	Labels map[string]string
	// Ready says that it takes requests, and Ending that it will not again.
	Ready, Ending bool
}

// takes reports whether the endpoint takes requests.
func (e *Endpoint) takes() bool { return e.Ready && !e.Ending }

// Source lists endpoints.
type Source interface {
	// Watch calls changed with all endpoints there are, at once and then whenever they may have changed, until the
	// context ends. Changed must not be called again before it has returned, and does not keep the list.
	Watch(ctx context.Context, changed func([]Endpoint)) error
}

// Group is the slots of one entry of replicas: engines of one variant on hosts that are alike.
type Group struct {
	// Name of the entry, which is the variant's where it has none of its own.
	Name, Variant string
	// Host is the host that those of the slots are like.
	Host string
	// Selector has the labels of its pods. Empty: they are found by their variant.
	Selector map[string]string
	// Port of its engines. Zero: those of the pool.
	Port  int
	Slots []Slot
}

// Slot is one replica of the catalogue that an engine may take.
type Slot struct {
	Replica int
	Host    string
}

// takes reports whether an endpoint may have a slot of the group.
func (g *Group) takes(e *Endpoint) bool {
	if e.Variant != "" && e.Variant != g.Variant && e.Variant != g.Name {
		return false
	}
	if e.Host != "" && e.Host != g.Host && !slices.ContainsFunc(g.Slots, func(s Slot) bool { return s.Host == e.Host }) {
		return false
	}
	if e.Labels == nil { // which no pod is without
		return e.Variant != "" || len(g.Selector) == 0
	}
	if len(g.Selector) == 0 {
		return e.Variant != ""
	}
	return selects(g.Selector, e.Labels)
}

// selects reports whether the labels have all of the selector.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// common returns the labels that all groups select by, which select the pods of all of them.
func common(groups []Group) map[string]string {
	var all map[string]string
	for i, g := range groups {
		if i == 0 {
			all = maps.Clone(g.Selector)
			continue
		}
		maps.DeleteFunc(all, func(key, value string) bool { return g.Selector[key] != value })
	}
	return all
}
