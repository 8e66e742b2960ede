package balance

import (
	"math/rand/v2"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// Informed is a [Balancer] that chooses by what replicas say of their load: a [Chooser] for
// the replicas of each variant, with what this router knows of them. Its methods may be called
// from any goroutine, with times of one clock, and allocate nothing.
//
// Who serves asks [Informed.Polled] before a request is routed, if the rule wants answers first,
// sends the request where [Informed.Pick] says, and asks [Informed.Probed] then. What a replica
// says goes to [Informed.Hear], however it comes, and the time that an answer took to
// [Informed.Answered]. All of them are optional: a rule makes do with what it hears.
//
// A rule may learn from a choice, so that the same view need not give the same replica twice;
// the same calls in the same order do.
type Informed struct {
	// Tiers is, by replica, the tier that it is in; nil if there are none. Replicas are asked for the
	// sake of a request in the tier that it has a place in alone. It may be set before the first call.
	Tiers []int

	name  string
	table *fleet.Table
	local []int // by replica, its place among those of its variant

	mu       sync.Mutex // protects all below
	chooser  Chooser
	variants []*Knowledge
	polledAt []time.Duration // by replica, when it last answered a poll; below zero for never
	down     []bool          // by replica, whether the last view had it unavailable
	source   rand.PCG
	random   *rand.Rand // of the source
	room     []int
}

// fresh is for how long what a replica said when it was polled counts as said for a choice.
const fresh = 5 * time.Millisecond

// NewInformed returns a balancer of the name that chooses by c. Means are how long a request of
// each variant is estimated to take; nil is unknown.
func NewInformed(name string, table *fleet.Table, c Chooser, means []time.Duration) *Informed {
	b := &Informed{name: name, table: table, local: make([]int, len(table.Replicas)), chooser: c}
	b.polledAt, b.down = make([]time.Duration, len(table.Replicas)), make([]bool, len(table.Replicas))
	for i := range b.polledAt {
		b.polledAt[i] = -1
	}
	b.random = rand.New(&b.source)
	client := NewClient(c, len(table.Hosts))
	for variant := range table.Variants {
		of := &Replicas{}
		if means != nil {
			of.Mean = means[variant]
		}
		for n, i := range table.ReplicasOf(variant) {
			b.local[i] = n
			of.Hosts = append(of.Hosts, table.Replicas[i].Host)
		}
		b.variants = append(b.variants, client.Knowledge(of))
		b.room = make([]int, 0, max(cap(b.room), len(of.Hosts)))
	}
	return b
}

// Name returns the name that it was given.
func (b *Informed) Name() string { return b.name }

// Pick implements router.Balancer. Where replicas were polled a moment ago, the choice is
// among these.
func (b *Informed) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.source.Seed(random, drawStream)
	k, polled := b.variants[variant], b.room[:0]
	k.Restrict()
	for _, i := range v.ReplicasOf(variant) {
		if b.down[i] = !v.Available(i); b.down[i] {
			continue
		}
		n := b.local[i]
		k.Allow(n)
		if own := int32(v.Own(i)); own != k.Own[n] {
			b.count(k, n, own)
		}
		if at := b.polledAt[i]; at >= 0 && at <= v.Now && v.Now-at < fresh {
			polled = append(polled, n)
		}
	}
	if k.Size() == 0 {
		return -1
	}
	chosen := b.chooser.Choose(k, polled, v.Now, b.random)
	if k.Own[chosen]++; k.At[chosen] >= 0 { // the rule has counted it
		k.Said[chosen].Count(int(k.Own[chosen]))
	}
	return b.table.ReplicasOf(variant)[chosen]
}

// count counts the router's own requests on a replica, so many, on top of what it last said.
func (b *Informed) count(k *Knowledge, replica int, own int32) {
	k.Own[replica] = own
	if k.At[replica] < 0 {
		return
	}
	more := int(own) - k.Said[replica].Own
	k.Said[replica].Count(int(own))
	if f, ok := b.chooser.(Follower); ok {
		f.Counted(k, replica, more)
	}
}

// Polled appends to polled the replicas whose counters are to be asked for next, before a request
// that has a place on a replica is sent, as [Chooser.Polled] does: those of the same variant and
// tier. The caller passes what they answer to Hear, and then asks again, until none is appended.
func (b *Informed) Polled(replica int, now time.Duration, random uint64, polled []int) []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.up(replica, random)
	if k.Size() == 0 {
		return polled
	}
	room := b.room[:0]
	for _, i := range polled {
		room = append(room, b.local[i])
	}
	return b.named(replica, polled, b.chooser.Polled(k, now, b.random, room)[len(room):])
}

// Probed appends the replicas to ask for their counters while a request is under way on a replica:
// those of the same variant and tier. Nothing waits for their answers.
func (b *Informed) Probed(replica int, now time.Duration, random uint64, buf []int) []int {
	p, ok := b.chooser.(Prober)
	if !ok {
		return buf
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.up(replica, random)
	if k.Size() == 0 {
		return buf
	}
	return b.named(replica, buf, p.Probed(k, now, b.random, b.room[:0]))
}

// up returns what is known of the replica's variant, restricted to the replicas of its tier that were
// available when one was last picked, and draws from the random number.
func (b *Informed) up(replica int, random uint64) *Knowledge {
	b.source.Seed(random, drawStream)
	variant := b.table.Replicas[replica].Variant
	k := b.variants[variant]
	k.Restrict()
	for n, i := range b.table.ReplicasOf(variant) {
		if !b.down[i] && (b.Tiers == nil || b.Tiers[i] == b.Tiers[replica]) {
			k.Allow(n)
		}
	}
	return k
}

// named appends the replicas whose places among those of the replica's variant are given.
func (b *Informed) named(replica int, to, places []int) []int {
	for _, n := range places {
		to = append(to, b.table.ReplicasOf(b.table.Replicas[replica].Variant)[n])
	}
	return to
}

// Hear takes in what a replica has said of itself at the time now, by the router's clock.
func (b *Informed) Hear(replica int, c signals.Counters, by Source, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, n := b.variants[b.table.Replicas[replica].Variant], b.local[replica]
	k.Hear(n, c, by, now)
	k.Own[n] = int32(k.Said[n].Own)
	if by == Polled {
		b.polledAt[replica] = now
	}
}

// Answered takes in that a request, which a replica has answered, took so long. Answers that
// failed are left out: what fails fast would look fast.
func (b *Informed) Answered(replica int, took, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.variants[b.table.Replicas[replica].Variant].Answered(b.local[replica], took, now)
}
