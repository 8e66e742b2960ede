// Package signals holds what engines say of their load, with its age, and corrects
// the ledger by the work that they have besides the router's own. It reads no clock
// and asks no engine: the reader of the gauges passes the readings in, with their times.
package signals

import (
	"math"
	"sync"
	"time"

	"gearshift/router/fleet"
)

// Reading is what an engine's gauges show. What they do not show is −1.
type Reading struct {
	Running, Waiting float64
	// KVUse is the share of its KV cache in use.
	KVUse float64
}

// Requests that the engine has, as far as it says; false if it says nothing of them.
func (r Reading) Requests() (n float64, ok bool) {
	if r.Running < 0 && r.Waiting < 0 {
		return 0, false
	}
	return max(0, r.Running) + max(0, r.Waiting), true
}

// Count is of requests on a replica, and of the tokens that they hold there.
type Count struct{ InFlight, Held int }

// Beyond is what n has above own, of each: never less than nothing.
func (n Count) Beyond(own Count) Count {
	return Count{max(0, n.InFlight-own.InFlight), max(0, n.Held-own.Held)}
}

// Plus adds the counts.
func (n Count) Plus(o Count) Count { return Count{n.InFlight + o.InFlight, n.Held + o.Held} }

// Most is the larger of each.
func (n Count) Most(o Count) Count { return Count{max(n.InFlight, o.InFlight), max(n.Held, o.Held)} }

// Signal is the last reading of a replica, and the correction by what has happened since.
type Signal struct {
	Reading
	// At is when it was read. There is none if Read is false.
	At   time.Duration
	Read bool
	// Stale says that it is too old to correct anything.
	Stale bool
	// Beyond is the reading less the router's own work and the shares of other routers.
	Beyond Count
	// Others is the present correction of the ledger: Beyond and the shares.
	Others Count
}

// Monitor keeps the signals of all replicas, and corrects the ledger by them. Its
// methods may be called from any goroutine, with times of one clock.
type Monitor struct {
	ledger *fleet.Ledger
	// OnCorrect, if set before the first reading, is called with each correction, in their order. It must not call the
	// Monitor.
	OnCorrect func(replica int, others Count)

	// mu protects what follows. It is held while the ledger is corrected, so that no older correction replaces a newer
	// one. Decisions do not take it.
	mu      sync.Mutex
	signals []Signal
	shares  []Count // of other routers, by replica
}

// New makes a Monitor that corrects the ledger, of whose replicas nothing is read yet.
func New(l *fleet.Ledger) *Monitor {
	n := len(l.Table().Replicas)
	return &Monitor{ledger: l, signals: make([]Signal, n), shares: make([]Count, n)}
}

// Signals are the last ones, by replica.
func (m *Monitor) Signals() []Signal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Signal(nil), m.signals...)
}

// Observe takes in what the replica's engine said at the time now, when the router's
// own work there was own. A reading can at most make a replica look full.
func (m *Monitor) Observe(replica int, r Reading, own Count, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.signals[replica] = Signal{Reading: r, At: now, Read: true, Beyond: m.others(replica, r, own.Plus(m.shares[replica]))}
	m.correct(replica)
}

// Share sets the reported load of other routers on each replica. The load that a reading shows beyond it and the
// router's own work stays until the next reading. The list is copied.
func (m *Monitor) Share(shares []Count) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, n := range shares {
		if m.shares[i] != n {
			m.shares[i] = n
			m.correct(i)
		}
	}
}

// others is the work that the reading shows besides the router's own. Of what the
// engine does not say, there is none.
func (m *Monitor) others(replica int, r Reading, own Count) Count {
	at := &m.ledger.Table().Replicas[replica]
	have, most := Count{}, Count{unlimited, math.MaxInt}
	if n, ok := r.Requests(); ok {
		have.InFlight = int(math.Round(n))
		if at.Limit > 0 {
			most.InFlight = at.Limit
		}
	}
	if r.KVUse >= 0 {
		have.Held = int(min(r.KVUse, 1) * float64(at.KVTokens))
	}
	others := have.Beyond(own)
	return Count{min(others.InFlight, most.InFlight), others.Held}
}

// unlimited bounds the correction of a replica without a limit.
const unlimited = 4096

// Fresh reports until when one of the replicas has a signal that is not too old,
// which it is after so long; ok is false if none has.
func (m *Monitor) Fresh(replicas []int, after, now time.Duration) (until time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range replicas {
		if stale := m.signals[r].At + after; now < stale {
			return stale, true
		}
	}
	return 0, false
}

// Forget removes the corrections by the stale signals of the replicas. Those by shares stay.
func (m *Monitor) Forget(replicas []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range replicas {
		s := &m.signals[r]
		s.Stale, s.Beyond = true, Count{}
		m.correct(r)
	}
}

// correct corrects the ledger by a replica's signal and the other routers' shares there. The lock is held.
func (m *Monitor) correct(replica int) {
	s := &m.signals[replica]
	s.Others = s.Beyond.Plus(m.shares[replica])
	m.ledger.Correct(replica, s.Others.InFlight, s.Others.Held)
	if m.OnCorrect != nil {
		m.OnCorrect(replica, s.Others)
	}
}
