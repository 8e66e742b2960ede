// Package discovery finds the engines behind the slots of a catalogue: a file, Kubernetes or DNS lists their
// addresses, each engine takes a free slot of its variant, and gives it back when it is gone. Policies see slots come
// and go as replicas that are up or not, and their indexes stay.
package discovery

import (
	"context"
	"maps"
	"slices"
)

// Endpoint describes an engine at an address, as a source lists it.
type Endpoint struct {
	// ID identifies the engine for its lifetime, such as a pod's UID and port. An engine that replaces another has
	// another ID.
	ID string
	// Name may return with another engine, like the names of a StatefulSet's pods.
	Name string
	// Address is host:port.
	Address string
	// Variant names the engine's variant, or an entry of replicas. Empty: its labels select it.
	Variant string
	// Host names the host that the engine's is like, or the slot that it wants. Empty: any.
	Host string
	// Labels are the pod's labels; nil without a pod.
	Labels map[string]string
	// Port of a pod's engine, and whether it is one of the pool's. A pod may have engines of several entries.
	Port   int
	Pooled bool
	// Ready means that the engine takes requests, and Ending that it never will again.
	Ready, Ending bool
}

// takes reports whether the endpoint takes requests.
func (e *Endpoint) takes() bool { return e.Ready && !e.Ending }

// Source lists endpoints.
type Source interface {
	// Watch calls changed with all present endpoints, at once and then whenever they may have changed, until the
	// context ends. Changed is called one at a time, and does not keep the list.
	Watch(ctx context.Context, changed func([]Endpoint)) error
}

// Group holds the slots of one entry of replicas, for engines of one variant on hosts that are alike.
type Group struct {
	// Name of the entry, which defaults to the variant's.
	Name, Variant string
	// Host names the host that those of the slots are like.
	Host string
	// Selector has the labels of its pods. Empty: pods are matched by their variant's label, whose key is Label.
	Selector map[string]string
	Label    string
	// Port of its engines. Zero: the pool's ports.
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
	return g.selects(e) && (e.Labels == nil || g.Port == e.Port || g.Port == 0 && e.Pooled)
}

// selects reports whether an endpoint may have a slot of the group at the right port.
func (g *Group) selects(e *Endpoint) bool {
	if !g.named(e.Variant) || !g.at(e.Host) {
		return false
	}
	if e.Labels == nil { // every pod has labels
		return e.Variant != "" || len(g.Selector) == 0
	}
	if len(g.Selector) == 0 {
		return e.Variant != ""
	}
	return matches(g.Selector, e.Labels)
}

// named reports whether the name is the group's or its variant's; the empty name is any group's.
func (g *Group) named(name string) bool { return name == "" || name == g.Variant || name == g.Name }

// at reports whether the host is of the group's kind or one of its slots'; the empty host is any group's.
func (g *Group) at(host string) bool {
	return host == "" || host == g.Host || slices.ContainsFunc(g.Slots, func(s Slot) bool { return s.Host == host })
}

// matches reports whether the labels have all of the selector.
func matches(selector, labels map[string]string) bool {
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
