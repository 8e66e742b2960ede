// Package slots reads the entries of a scenario's replicas whose engines come and go: up to a number of engines of
// one variant, each on a host like one of the file.
package slots

import (
	"fmt"
	"maps"

	"gearshift/serving/discovery/settings"
)

// Template replaces the hosts in an entry of replicas.
type Template struct {
	// Slots limits the engines at a time; zero: the entry lists its hosts.
	Slots int `yaml:"slots,omitempty"`
	// Host names the host that each engine's host copies.
	Host string `yaml:"host,omitempty"`
	// Selector has the labels of the engines' pods. Empty: pods are matched by their variant's label.
	Selector map[string]string `yaml:"selector,flow,omitempty"`
	// Port of the engines. Zero: the pool's ports.
	Port int `yaml:"port,omitempty"`
}

// Most limits the slots of an entry.
const Most = 1000

// On reports whether the entry has slots.
func (t *Template) On() bool { return t.Slots != 0 }

// Hosts returns the names of the slots' hosts.
func (t *Template) Hosts(entry string) []string {
	var names []string
	for i := range t.Slots {
		names = append(names, fmt.Sprint(entry, "-", i))
	}
	return names
}

// Alike reports whether nothing tells the pods of two entries apart: the same selector, without the label that names a
// variant, and the same port.
func (t *Template) Alike(o *Template, label string) bool {
	_, named := t.Selector[label]
	return t.On() && o.On() && len(t.Selector) > 0 && !named && maps.Equal(t.Selector, o.Selector) && t.Port == o.Port
}

// Judge reports the faults of the entry, by key. Hosts counts the hosts that the entry lists itself.
func (t *Template) Judge(hosts int, found func(key, format string, args ...any)) {
	if !t.On() {
		if t.Host != "" {
			found("host", "has no meaning without slots; want slots, or hosts")
		}
		if len(t.Selector) > 0 || t.Port != 0 {
			found("slots", "missing; want how many engines there are at most, with the host that theirs are like")
		}
		return
	}
	if t.Slots < 1 || t.Slots > Most {
		found("slots", "want a number from 1 to %d, not %d", Most, t.Slots)
	}
	if hosts > 0 {
		found("hosts", "has no meaning with slots, each of which has a host of its own; want one of the two")
	}
	if t.Host == "" {
		found("host", "missing; want one of hosts, which the host of each slot is like")
	}
	if t.Port < 0 || t.Port > 65535 {
		found("port", "want a port from 1 to 65535, or none for the ports of the pool, not %d", t.Port)
	}
	if err := settings.CheckSelector(t.Selector); err != nil {
		found("selector", "%v", err)
	}
}
