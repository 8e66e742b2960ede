package discovery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file explains why engines have no slot.

// waits is a ready engine without a slot.
type waits struct {
	Endpoint
	cause string
}

// fault returns why no slot of the groups is for the endpoint, whether free or not; empty if there are such slots.
func fault(groups []Group, e *Endpoint) string {
	if slices.ContainsFunc(groups, func(g Group) bool { return g.takes(e) }) {
		return ""
	}
	ofVariant := slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return !g.named(e.Variant) })
	onHost := slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return !g.at(e.Host) })
	both := slices.DeleteFunc(slices.Clone(ofVariant), func(g Group) bool { return !g.at(e.Host) })
	switch {
	case len(ofVariant) == 0:
		return fmt.Sprintf("variant %q is none of the scenario's; want %s", e.Variant, choice(groups, func(g *Group) []string { return []string{g.Variant, g.Name} }))
	case len(onHost) == 0:
		return fmt.Sprintf("host %q is none of the scenario's; want %s", e.Host, choice(groups, (*Group).hosts))
	case len(both) == 0:
		return fmt.Sprintf("variant %q has no slots on host %q; want %s", e.Variant, e.Host, choice(ofVariant, (*Group).hosts))
	case e.Variant == "" && !slices.ContainsFunc(both, func(g Group) bool { return len(g.Selector) > 0 }):
		return fmt.Sprintf("it has no label %s; want %s", both[0].Label, choice(both, func(g *Group) []string { return []string{g.Variant, g.Name} }))
	}
	names := choice(both, func(g *Group) []string { return []string{g.Name} })
	return fmt.Sprintf("its labels do not match those of %s; want %s", names, choice(both, (*Group).labels))
}

// labels returns the labels that the group's pods have, as the scenario writes them.
func (g *Group) labels() []string {
	if len(g.Selector) == 0 {
		return []string{fmt.Sprintf("{%s: %s}", g.Label, g.Name)}
	}
	var list []string
	for _, key := range slices.Sorted(maps.Keys(g.Selector)) {
		list = append(list, key+": "+g.Selector[key])
	}
	return []string{"{" + strings.Join(list, ", ") + "}"}
}

// hosts returns the kind of the group's hosts or, without one, the hosts of its slots.
func (g *Group) hosts() (list []string) {
	if g.Host != "" {
		return []string{g.Host}
	}
	for _, s := range g.Slots {
		list = append(list, s.Host)
	}
	return list
}

// choice lists the different values of the groups, as in "a, b or c".
func choice(groups []Group, values func(*Group) []string) string {
	var list []string
	for i := range groups {
		for _, v := range values(&groups[i]) {
			if v != "" && !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	if n := len(list) - 1; n > 0 {
		return strings.Join(list[:n], ", ") + " or " + list[n]
	}
	return strings.Join(list, "")
}

// explain logs why ready engines have no slot, whenever the causes are others than before. The lock is held.
func (m *Module) explain() {
	first, count := map[string]*waits{}, map[string]int{}
	for i := range m.slots.waiting {
		w := &m.slots.waiting[i]
		if count[w.cause]++; first[w.cause] == nil {
			first[w.cause] = w
		}
	}
	causes := slices.Sorted(maps.Keys(count))
	if slices.Equal(causes, m.causes) {
		return
	}
	m.causes = causes
	for _, c := range causes {
		m.options.Log.Warn("ready engines without a slot get no requests", "cause", c, "engines", count[c], "first", first[c].Name, "address", first[c].Address)
	}
	if len(causes) == 0 {
		m.options.Log.Info("every engine has a slot")
	}
}
