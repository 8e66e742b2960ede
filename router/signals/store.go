package signals

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
)

// Source is where a signal comes from.
type Source uint8

// The sources.
const (
	// Own: the router knows nothing but its own requests there.
	Own Source = iota
	// StandIn: the mean of the model's other replicas, where the replica could not be asked
	// (META-21).
	StandIn
	// Pushed, Piggybacked, Polled, Probed and Asked are what the engine says: of itself, with an
	// answer, asked in the background, asked beside a request, and asked before a choice.
	Pushed
	Piggybacked
	Polled
	Probed
	Asked
	sources
)

// Sources lists all sources, for metrics.
var Sources = [...]Source{Own, StandIn, Pushed, Piggybacked, Polled, Probed, Asked}

// String returns the source's name.
func (s Source) String() string {
	return [...]string{"own", "stand_in", "pushed", "piggybacked", "polled", "probed", "asked"}[s]
}

// Known is what is known of a replica's load.
type Known struct {
	Load
	Counters Counters
	Source   Source
	// At is when it was received, by the router's clock. What an engine says of the time is ignored.
	At time.Duration
}

// Store keeps what the engines of all replicas say of their load. Its methods may be called from
// any goroutine, with times of one clock.
type Store struct {
	table      *fleet.Table
	staleAfter atomic.Int64
	// OnHeard, if set before the first signal, is called with each that is used, and how it came; of
	// one that stands in, how the replica was asked. Calls for one replica may overlap.
	OnHeard func(replica int, k Known, by Source)
	// Named, if set before the first signal, returns the name by which the replica's engine knows the
	// model that it has now, where that changes. It is called from any goroutine.
	Named func(replica int) string
	// OnFault, if set before the first signal, is called with each fault.
	OnFault func(replica int, from Source, f Fault)

	entries []entry
	each    mean // the work of a request, over all signals that say it
}

// entry is what is known of one replica.
type entry struct {
	mu     sync.Mutex // protects all below
	known  Known
	heard  bool
	missed bool // the last time that it was asked, it did not answer
	guards [sources]guard
	model  uint32
}

// NewStore makes a Store for the replicas of the table, of which nothing is known. Models has the
// names by which engines know the replicas' models; a signal of the age staleAfter is not used.
func NewStore(t *fleet.Table, models []string, staleAfter time.Duration) *Store {
	s := &Store{table: t, entries: make([]entry, len(t.Replicas))}
	s.SetStaleAfter(staleAfter)
	for i := range s.entries {
		s.entries[i].model = ModelID(models[i])
	}
	return s
}

// SetStaleAfter sets the age from which a signal is not used.
func (s *Store) SetStaleAfter(d time.Duration) { s.staleAfter.Store(int64(d)) }

// Hear takes in what the replica's engine said, when the router's own work there was own. It
// reports what is wrong with it; what is [Fault.Refused] is not used.
func (s *Store) Hear(replica int, l Load, from Source, own Count, now time.Duration) Fault {
	e := &s.entries[replica]
	model := e.model
	if s.Named != nil {
		model = ModelID(s.Named(replica))
	}
	e.mu.Lock()
	fault := e.guards[from].check(&l, model, &s.table.Replicas[replica], own)
	if fault.Refused() {
		e.mu.Unlock()
		s.fault(replica, from, fault)
		return fault
	}
	if l.Work >= 0 && l.Host >= 1 {
		s.each.add(l.Work / l.Host)
	}
	if l.Cores < 0 && e.heard {
		l.Cores = e.known.Cores
	}
	known := Known{Load: l, Counters: l.counters(own, s.perRequest()), Source: from, At: now}
	e.known, e.heard, e.missed = known, true, false
	e.mu.Unlock()
	if fault != Fine {
		s.fault(replica, from, fault)
	}
	if s.OnHeard != nil {
		s.OnHeard(replica, known, from)
	}
	return fault
}

func (s *Store) fault(replica int, from Source, f Fault) {
	if s.OnFault != nil {
		s.OnFault(replica, from, f)
	}
}

// Miss takes in that the replica was asked in some way and did not answer. The mean of the model's
// other replicas stands in for what it would have said, until it is heard again.
func (s *Store) Miss(replica int, by Source, now time.Duration) {
	e := &s.entries[replica]
	e.mu.Lock()
	e.missed = true
	e.mu.Unlock()
	if known := s.Known(replica, now); known.Source == StandIn && s.OnHeard != nil {
		s.OnHeard(replica, known, by)
	}
}

// Forget drops what is known of a replica: another engine, or another model, may answer for it.
func (s *Store) Forget(replica int) {
	e := &s.entries[replica]
	e.mu.Lock()
	e.known, e.heard, e.missed, e.guards = Known{}, false, false, [sources]guard{}
	e.mu.Unlock()
}

// Known returns what is known of the replica's load: what its engine said last, or else what stands
// in for it. Own is the source where nothing is known.
func (s *Store) Known(replica int, now time.Duration) Known {
	if known, ok := s.own(replica, now); ok {
		return known
	}
	var sum totals
	for _, other := range s.table.ReplicasOf(s.table.Replicas[replica].Variant) {
		if other == replica {
			continue
		}
		if known, ok := s.own(other, now); ok {
			sum.add(&known)
		}
	}
	if sum.n == 0 {
		return Known{Load: NewLoad()}
	}
	return sum.mean(s.cores(replica))
}

// Each calls f with what is known of each replica, like [Store.Known], in a time that grows with the
// number of replicas and no faster.
func (s *Store) Each(now time.Duration, f func(replica int, k *Known)) {
	for variant := range s.table.Variants {
		var sum totals
		list := s.table.ReplicasOf(variant)
		heard := make([]bool, len(list))
		for n, i := range list {
			var known Known
			if known, heard[n] = s.own(i, now); heard[n] {
				sum.add(&known)
				f(i, &known)
			}
		}
		for n, i := range list {
			if heard[n] {
				continue
			}
			known := Known{Load: NewLoad()}
			if sum.n > 0 {
				known = sum.mean(s.cores(i))
			}
			f(i, &known)
		}
	}
}

// own returns what the replica's engine said last, unless that is too old or it has been asked in
// vain since.
func (s *Store) own(replica int, now time.Duration) (known Known, ok bool) {
	e := &s.entries[replica]
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known, e.heard && !e.missed && int64(now-e.known.At) < s.staleAfter.Load()
}

// cores returns how many the replica's host has, as its engine said last; zero is unknown.
func (s *Store) cores(replica int) float64 {
	e := &s.entries[replica]
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known.Counters.Cores
}

// perRequest is the mean work of a request, as far as engines say it.
func (s *Store) perRequest() time.Duration {
	return time.Duration(s.each.value(nominal.Seconds()) * float64(time.Second))
}

// nominal is the work of a request where no engine says any: only comparisons are made.
const nominal = time.Millisecond

// totals adds up what several replicas say.
type totals struct {
	n                        float64
	model, host, work, cores float64
	at                       time.Duration
}

func (t *totals) add(k *Known) {
	if t.n == 0 || k.At < t.at {
		t.at = k.At
	}
	t.n++
	cores := max(1, k.Counters.Cores)
	t.model += float64(k.Counters.Model)
	// Hosts are unequal: what they have for each core is alike.
	t.host, t.work, t.cores = t.host+float64(k.Counters.Host)/cores, t.work+float64(k.Counters.Work)/cores, t.cores+k.Counters.Cores
}

// mean returns what a replica on a host of so many cores would say; zero cores are unknown. Its age
// is that of the oldest part.
func (t *totals) mean(cores float64) Known {
	if cores == 0 {
		cores = t.cores / t.n
	}
	c := Counters{Model: int(math.Round(t.model / t.n)), Cores: cores}
	scale := max(1, cores) / t.n
	c.Host = max(c.Model, int(math.Round(t.host*scale)))
	c.Work = time.Duration(t.work * scale)
	return Known{Load: NewLoad(), Counters: c, Source: StandIn, At: t.at}
}
