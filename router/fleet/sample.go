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
	hosts     []int
	replicas  []int
	byVariant [][]int
}

// Sample makes v a view of [SampleHosts] hosts of the fleet, any with the same
// chance, and of one more host for each variant that none of them has. In a
// smaller fleet it is of all. Equal random numbers draw equal hosts.
func (v *View) Sample(t *Table, random uint64) {
	s := &v.sample
	v.Table = t
	if s.drawn = len(t.Hosts) > SampleHosts; !s.drawn {
		return
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
	for last := len(t.Hosts) - SampleHosts; last < len(t.Hosts); last++ {
		h := below(last + 1)
		if slices.Contains(s.hosts, h) {
			h = last
		}
		s.add(t, h)
	}
	for m := range t.Variants {
		if all := t.ReplicasOf(m); len(s.byVariant[m]) == 0 && len(all) > 0 {
			s.add(t, t.Replicas[all[below(len(all))]].Host)
		}
	}
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
	hosts, all := o.Hosts(), o.Replicas()
	*v = *o
	v.sample = sample{drawn: true, hosts: hosts, replicas: all, byVariant: by}
}

// copyFrom makes s equal to o, reusing s's memory.
func (s *sample) copyFrom(o *sample) {
	s.drawn = o.drawn
	if !s.drawn {
		return
	}
	s.hosts = append(s.hosts[:0], o.hosts...)
	s.replicas = append(s.replicas[:0], o.replicas...)
	for len(s.byVariant) < len(o.byVariant) {
		s.byVariant = append(s.byVariant, nil)
	}
	for m := range o.byVariant {
		s.byVariant[m] = append(s.byVariant[m][:0], o.byVariant[m]...)
	}
}

// Only makes v a view of these hosts of the fleet, in this order, as Sample made
// one that is to be looked at again.
func (v *View) Only(t *Table, hosts []int) {
	s := &v.sample
	v.Table, s.drawn = t, true
	s.hosts, s.replicas = s.hosts[:0], s.replicas[:0]
	s.byVariant = make([][]int, len(t.Variants))
	for _, h := range hosts {
		s.add(t, h)
	}
}
