package signals

import (
	"sync"
	"time"

	"gearshift/router/fleet"
)

// Use is how much of its host a replica used over a time, or how much of a host was in use.
type Use struct {
	// Answered is the share of the host's time that the answers take at its best, in as large batches as it
	// computes in time. The shares of a host's replicas add up to its own.
	Answered float64
	// InFlight is how many requests of the router's there were, in the mean of samples, and AtOnce how many the
	// replicas that are up on the host work on at a time; zero is unknown.
	InFlight float64
	AtOnce   int
	// Said is the share of the host's processors that its engines say is busy; −1 if none says it.
	Said float64
}

// Load returns how busy that is: by answers, by requests in flight or by what engines say, whichever is more. It
// exceeds 1 where more requests are in flight than are worked on at a time.
func (u Use) Load() float64 {
	load := max(u.Answered, u.Said)
	if u.AtOnce > 0 {
		load = max(load, u.InFlight/float64(u.AtOnce))
	}
	return load
}

// Share returns the load as a share, at most 1.
func (u Use) Share() float64 { return min(1, u.Load()) }

// Busy measures how busy replicas keep their hosts: by the requests that they have answered, by those that they have,
// and by what their engines say. It is safe for concurrent use.
type Busy struct {
	table  *fleet.Table
	ledger *fleet.Ledger
	BusyOptions

	mu      sync.Mutex // protects what follows
	sampled time.Duration
	ring    []interval // by the number of their time
	shown   time.Duration
	shares  []float32 // by host
}

// BusyOptions are what a [Busy] knows of replicas. Nil is nothing.
type BusyOptions struct {
	// Takes returns how much of its time the replica's host needs for an answer of so many tokens, at its best.
	Takes func(replica, tokens int) time.Duration
	// AtOnce lists how many requests each replica works on at a time.
	AtOnce []int
	// Said returns what is known of a replica's load.
	Said func(replica int) Known
}

// interval is what is measured within a time.
type interval struct {
	number   int64
	worked   []float32 // seconds, by replica
	samples  float32
	inFlight []float32 // by replica, the sum of samples
	said     []float32 // by host, the sum of those that said something
	saying   []float32 // by host, how many did
}

const (
	// each is how long an interval lasts.
	each = 2 * time.Second
	// kept is how long they are kept.
	kept = 16 * time.Minute
	// Sampling is how often [Busy.Sample] is to be called by those who read more than what was answered.
	Sampling = 500 * time.Millisecond
	// Lately is how long a host's share in use is the mean of, for those who act on it at once.
	Lately = 10 * time.Second
)

// NewBusy returns a measurement of the ledger's replicas.
func NewBusy(l *fleet.Ledger, o BusyOptions) *Busy {
	b := &Busy{table: l.Table(), ledger: l, BusyOptions: o, ring: make([]interval, kept/each), sampled: -Sampling}
	for i := range b.ring {
		b.ring[i].number = -1
	}
	return b
}

// Answered counts an answer of so many tokens.
func (b *Busy) Answered(replica, tokens int, now time.Duration) {
	if b.Takes != nil {
		b.Worked(replica, b.Takes(replica, tokens), now)
	}
}

// Worked counts a time for which a replica has kept its host at work.
func (b *Busy) Worked(replica int, took, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at(now).worked[replica] += float32(took.Seconds())
}

// at returns the interval of a time, emptied if it was that of an earlier one.
func (b *Busy) at(now time.Duration) *interval {
	n := int64(now / each)
	x := &b.ring[n%int64(len(b.ring))]
	if x.number == n {
		return x
	}
	if x.worked == nil {
		replicas, hosts := len(b.table.Replicas), len(b.table.Hosts)
		x.worked, x.inFlight, x.said, x.saying = make([]float32, replicas), make([]float32, replicas), make([]float32, hosts), make([]float32, hosts)
	}
	x.number, x.samples = n, 0
	clear(x.worked)
	clear(x.inFlight)
	clear(x.said)
	clear(x.saying)
	return x
}

// Sample looks at the requests in flight and at what engines say, unless that has been done just before.
func (b *Busy) Sample(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now < b.sampled+Sampling/2 {
		return
	}
	b.sampled = now
	x := b.at(now)
	x.samples++
	for h := range b.table.Hosts {
		said := -1.0
		for _, r := range b.table.ReplicasOn(h) {
			x.inFlight[r] += float32(b.ledger.InFlightOn(r))
			if b.Said != nil && b.ledger.Placed(r) == fleet.Up {
				if k := b.Said(r); k.Source > StandIn {
					said = max(said, k.Load.CPU)
				}
			}
		}
		if said >= 0 {
			x.said[h] += float32(said)
			x.saying[h]++
		}
	}
}

// Show has the ledger's views show how busy hosts have been [Lately], and returns when to do that again. It is called
// by one goroutine at a time.
func (b *Busy) Show(now time.Duration) (next time.Duration) {
	if b.shares != nil && now < b.shown+Sampling {
		return b.shown + Sampling
	}
	b.Sample(now)
	b.shares = b.shares[:0]
	for h := range b.table.Hosts {
		b.shares = append(b.shares, float32(b.Host(h, Lately, now).Share()))
	}
	b.ledger.SetBusy(b.shares)
	b.shown = now
	return now + Sampling
}

// Replica returns how much of its host a replica used over a time until now.
func (b *Busy) Replica(i int, over, now time.Duration) Use {
	u := b.of([]int{i}, b.table.Replicas[i].Host, over, now)
	u.Said = -1
	return u
}

// Host returns how busy a host was over a time until now, or until an earlier time that is not forgotten.
func (b *Busy) Host(h int, over, now time.Duration) Use {
	return b.of(b.table.ReplicasOn(h), h, over, now)
}

func (b *Busy) of(replicas []int, host int, over, now time.Duration) Use {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := int64(max(0, now-1) / each)
	first := max(0, int64((now-over)/each), last-int64(len(b.ring))+1)
	var worked, inFlight, samples, said, saying float32
	for n := first; n <= last; n++ {
		x := &b.ring[n%int64(len(b.ring))]
		if x.number != n {
			continue
		}
		for _, r := range replicas {
			worked, inFlight = worked+x.worked[r], inFlight+x.inFlight[r]
		}
		samples, said, saying = samples+x.samples, said+x.said[host], saying+x.saying[host]
	}
	u := Use{Answered: float64(worked) / max(each, now-time.Duration(first)*each).Seconds(), InFlight: float64(inFlight / max(1, samples)), Said: -1}
	if saying > 0 {
		u.Said = float64(said / saying)
	}
	for _, r := range b.table.ReplicasOn(host) {
		if b.AtOnce != nil && b.ledger.Placed(r) == fleet.Up {
			u.AtOnce += b.AtOnce[r]
		}
	}
	return u
}
