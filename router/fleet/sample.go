package fleet

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// SampleHosts is how many hosts a decision looks at in a fleet of more, so that
// its cost does not grow with the fleet. docs/decisions/0021 has what it costs.
const SampleHosts = 16

// sample is the hosts that a view stands for, with their replicas in table order
// of the hosts drawn. Without it the view is of the whole fleet.
type sample struct {
	drawn     bool
	from      *roster // nil: the whole fleet
	hosts     []int
	replicas  []int
	byVariant [][]int
}

// roster lists the hosts of a large fleet that have a present replica ([State.There]), and counts these replicas
// by variant. It does not change.
type roster struct{ hosts, byVariant []int }

// present returns the roster of a fleet whose replicas are in these states, or nil if it has all hosts.
func present(t *Table, state func(replica int) State) *roster {
	if len(t.Hosts) <= SampleHosts {
		return nil
	}
	x := &roster{byVariant: make([]int, len(t.Variants))}
	for h := range t.Hosts {
		on := t.ReplicasOn(h)
		if !slices.ContainsFunc(on, func(i int) bool { return state(i).There() }) {
			continue
		}
		x.hosts = append(x.hosts, h)
		for _, i := range on {
			x.byVariant[t.Replicas[i].Variant]++
		}
	}
	if n := len(x.hosts); n == 0 || n == len(t.Hosts) {
		return nil
	}
	return x
}

// SampleOf draws a [View.Sample] of the ledger's hosts that have a present replica ([State.There]). It takes all
// of them if there are no more than [SampleHosts].
func (v *View) SampleOf(l *Ledger, random uint64) { v.draw(l.table, l.present.Load(), random) }

// Sample makes v a view of [SampleHosts] hosts of the fleet, any with the same
// chance, and of one more host for each variant that none of them has. In a
// smaller fleet it is of all. Equal random numbers draw equal hosts.
func (v *View) Sample(t *Table, random uint64) { v.draw(t, nil, random) }

func (v *View) draw(t *Table, from *roster, random uint64) {
	s := &v.sample
	v.Table = t
	if s.drawn = len(t.Hosts) > SampleHosts; !s.drawn {
		return
	}
	hosts := t.hosts
	if s.from = from; from != nil {
		hosts = from.hosts
	}
	s.hosts, s.replicas = s.hosts[:0], s.replicas[:0]
	for len(s.byVariant) < len(t.Variants) {
		s.byVariant = append(s.byVariant, nil)
	}
	for m := range s.byVariant {
		s.byVariant[m] = s.byVariant[m][:0]
	}
	var source rand.PCG // which a rand.Rand would make escape
	source.Seed(random, sampleStream)
	below := func(n int) int {
		high, _ := bits.Mul64(source.Uint64(), uint64(n))
		return int(high)
	}
	// Floyd's sampling without replacement (Bentley and Floyd 1987).
	for last := max(0, len(hosts)-SampleHosts); last < len(hosts); last++ {
		h := hosts[below(last+1)]
		if slices.Contains(s.hosts, h) {
			h = hosts[last]
		}
		s.add(t, h)
	}
	for m := range t.Variants {
		all := t.ReplicasOf(m)
		if len(s.byVariant[m]) > 0 || len(all) == 0 {
			continue
		}
		h := t.Replicas[all[below(len(all))]].Host
		for from != nil && from.byVariant[m] > 0 && !from.has(h) {
			h = t.Replicas[all[below(len(all))]].Host
		}
		s.add(t, h)
	}
}

func (x *roster) has(host int) bool {
	_, ok := slices.BinarySearch(x.hosts, host)
	return ok
}

// sampleStream sets the numbers that draw hosts apart from others of a seed.
const sampleStream = 0x73616d706c65

func (s *sample) add(t *Table, host int) {
	s.hosts = append(s.hosts, host)
	for _, r := range t.ReplicasOn(host) {
		m := t.Replicas[r].Variant
		s.replicas = append(s.replicas, r)
		s.byVariant[m] = append(s.byVariant[m], r)
	}
}

// Whole makes v a view of the whole fleet again.
func (v *View) Whole() { v.sample.drawn = false }

// Sampled reports whether v is a view of a sample.
func (v *View) Sampled() bool { return v.sample.drawn }

// PresentHosts counts the hosts that v stands for: its own, or those of which it is a sample.
func (v *View) PresentHosts() int {
	if v.sample.drawn && v.sample.from != nil {
		return len(v.sample.from.hosts)
	}
	return len(v.Table.Hosts)
}

// PresentOf returns the number of replicas of the variant on these hosts.
func (v *View) PresentOf(variant int) int {
	if v.sample.drawn && v.sample.from != nil {
		return max(v.sample.from.byVariant[variant], len(v.ReplicasOf(variant)))
	}
	return len(v.Table.ReplicasOf(variant))
}

// Hosts lists the hosts that v is a view of. Read-only, as the two below.
func (v *View) Hosts() []int {
	if v.sample.drawn {
		return v.sample.hosts
	}
	return v.Table.hosts
}

// Replicas lists the replicas that v is a view of.
func (v *View) Replicas() []int {
	if v.sample.drawn {
		return v.sample.replicas
	}
	return v.Table.replicas
}

// ReplicasOf lists the replicas of the variant that v is a view of.
func (v *View) ReplicasOf(variant int) []int {
	if v.sample.drawn {
		return v.sample.byVariant[variant]
	}
	return v.Table.ReplicasOf(variant)
}

// Narrow makes v the view o for a choice of one variant among these of its replicas alone. It
// shares all else with o, which may be v itself, so that v is of use to nothing but that choice.
func (v *View) Narrow(o *View, variant int, replicas []int) {
	by := v.sample.byVariant[:0]
	if n := len(o.Table.Variants); cap(by) < n {
		by = make([][]int, 0, n)
	}
	for m := range o.Table.Variants {
		by = append(by, o.ReplicasOf(m))
	}
	by[variant] = replicas
	hosts, all, from := o.Hosts(), o.Replicas(), o.sample.from
	if !o.sample.drawn {
		from = nil
	}
	*v = *o
	v.sample = sample{drawn: true, from: from, hosts: hosts, replicas: all, byVariant: by}
}

// copyFrom makes s equal to o, reusing s's memory.
func (s *sample) copyFrom(o *sample) {
	s.drawn = o.drawn
	if !s.drawn {
		return
	}
	s.from = o.from
	s.hosts = append(s.hosts[:0], o.hosts...)
	s.replicas = append(s.replicas[:0], o.replicas...)
	for len(s.byVariant) < len(o.byVariant) {
		s.byVariant = append(s.byVariant, nil)
	}
	for m := range o.byVariant {
		s.byVariant[m] = append(s.byVariant[m][:0], o.byVariant[m]...)
	}
}

// Only restricts v to these hosts of the fleet, in this order, to repeat the view of an earlier Sample. The states
// of the replicas are already v's.
func (v *View) Only(t *Table, hosts []int) {
	s := &v.sample
	v.Table, s.drawn, s.from = t, true, present(t, v.State)
	s.hosts, s.replicas = s.hosts[:0], s.replicas[:0]
	s.byVariant = make([][]int, len(t.Variants))
	for _, h := range hosts {
		s.add(t, h)
	}
}
