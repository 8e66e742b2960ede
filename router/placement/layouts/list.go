package layouts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gearshift/router/fleet"
)

// Most bounds the layouts of a host.
const Most = 64

// Limits bound the layouts of hosts.
type Limits struct {
	// Decided reports whether the replica may be part of a layout; nil is all. One that may not stays as it is, and
	// its memory is kept for it.
	Decided func(replica int) bool
	// Pinned reports whether the replica is part of every layout of its host. Nil is none.
	Pinned func(replica int) bool
}

// List returns the layouts of a host: all sets of its replicas that fit its memory, with at most one replica of a
// variant, to which no other could be added. It leaves out a set that differs from another only by a smaller share of
// memory.
func List(t *fleet.Table, host int, o Limits) ([]Layout, error) {
	l := &lister{table: t, limits: o, free: t.Hosts[host].Memory}
	l.unbounded = l.free == 0
	for v := range t.Variants {
		var choices []int
		for _, r := range t.ReplicasOf(v) {
			switch {
			case t.Replicas[r].Host != host:
			case o.Decided == nil || o.Decided(r):
				choices = append(choices, r)
			case t.Replicas[r].Initial == fleet.Up:
				l.free -= t.MemoryOf(r)
			}
		}
		if len(choices) > 0 {
			l.variants = append(l.variants, choices)
		}
	}
	if len(l.variants) == 0 {
		return nil, nil
	}
	l.extend(0, nil, l.free)
	if len(l.found) > far {
		return nil, tooMany(t.Hosts[host].Name)
	}
	l.found = slices.DeleteFunc(l.found, func(a []int) bool {
		return slices.ContainsFunc(l.found, func(b []int) bool { return l.dominates(b, a) })
	})
	switch name := t.Hosts[host].Name; {
	case len(l.found) == 0:
		return nil, fmt.Errorf("host %s has no room for what is pinned there; want less pinned, or more memory", name)
	case len(l.found) > Most:
		return nil, tooMany(name)
	}
	list := make([]Layout, len(l.found))
	for i, up := range l.found {
		slices.Sort(up)
		list[i] = Layout{Host: host, Up: up}
	}
	return list, nil
}

func tooMany(host string) error {
	return fmt.Errorf("host %s has more than %d layouts; want fewer replicas there, or some of them pinned", host, Most)
}

// lister finds the layouts of a host.
type lister struct {
	table     *fleet.Table
	limits    Limits
	free      int64
	unbounded bool
	variants  [][]int // the replicas of each variant that is there
	found     [][]int
}

// far bounds the sets that are found before the dominated ones are left out.
const far = 4096

// extend finds the sets that begin with these replicas, of the first variants.
func (l *lister) extend(next int, up []int, free int64) {
	if len(l.found) > far {
		return
	}
	if next == len(l.variants) {
		if l.whole(up, free) {
			l.found = append(l.found, slices.Clone(up))
		}
		return
	}
	for _, r := range l.variants[next] {
		if needs := l.table.MemoryOf(r); needs <= free || l.unbounded {
			l.extend(next+1, append(up, r), free-needs)
		}
	}
	l.extend(next+1, up, free)
}

// whole reports whether the set has all pinned replicas, and no variant could be added to it.
func (l *lister) whole(up []int, free int64) bool {
	for _, choices := range l.variants {
		has, pinned := false, false
		for _, r := range choices {
			has = has || slices.Contains(up, r)
			if l.limits.Pinned != nil && l.limits.Pinned(r) {
				pinned = true
				if !slices.Contains(up, r) {
					return false
				}
			}
		}
		if has || pinned {
			continue
		}
		if slices.ContainsFunc(choices, func(r int) bool { return l.unbounded || l.table.MemoryOf(r) <= free }) {
			return false
		}
	}
	return true
}

// dominates reports whether b has the variants of a with no share smaller, and one larger.
func (l *lister) dominates(b, a []int) bool {
	if len(a) != len(b) {
		return false
	}
	larger := false
	for i := range a { // both in order of the variants
		if l.table.Replicas[a[i]].Variant != l.table.Replicas[b[i]].Variant || l.table.MemoryOf(b[i]) < l.table.MemoryOf(a[i]) {
			return false
		}
		larger = larger || l.table.MemoryOf(b[i]) > l.table.MemoryOf(a[i])
	}
	return larger
}

// Misfit describes the replicas that are up at the start on the host of these layouts, if they are none of them:
// "a up, which is none of its layouts: a + b, c". It is empty if they are one.
func Misfit(t *fleet.Table, list []Layout) string {
	if len(list) < 2 {
		return ""
	}
	var up []int
	for _, r := range t.ReplicasOn(list[0].Host) {
		decided := slices.ContainsFunc(list, func(l Layout) bool { return l.has(r) })
		if t.Replicas[r].Initial == fleet.Up && decided {
			up = append(up, r)
		}
	}
	var names []string
	for _, l := range list {
		if slices.Equal(l.Up, up) {
			return ""
		}
		names = append(names, l.in(t))
	}
	return fmt.Sprintf("%s up, which is none of its layouts: %s", cmp.Or((&Layout{Up: up}).in(t), "nothing"), strings.Join(names, ", "))
}

// in names the replicas of the layout.
func (l *Layout) in(t *fleet.Table) string {
	var names []string
	for _, r := range l.Up {
		names = append(names, t.Replicas[r].Name)
	}
	return strings.Join(names, " + ")
}
