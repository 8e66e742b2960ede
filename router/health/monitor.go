package health

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
)

// Monitor keeps the state of each replica, and sets in the ledger which may be chosen. It
// brings up only replicas that it took down itself.
//
// Its methods may be called from any goroutine, with times of one clock. Those that change
// states return the changes, in order.
type Monitor struct {
	ledger *fleet.Ledger

	signs []atomic.Uint64 // by replica: tokens came, or an answer

	mu        sync.Mutex // protects all below
	addresses []string
	config    Config
	replicas  []replica
	random    *rand.Rand
	view      fleet.View
	changes   []Change
}

// replica is what the Monitor knows about one replica.
type replica struct {
	Status
	until  time.Duration // the end of the cooldown, if ejected
	level  int           // ejections, each soon after the one before
	hard   bool          // cannot be reached, or its probes fail
	gone   bool          // its host has left, see Leave
	vacant bool          // it has no engine, see Vacate

	failures int           // in a row
	errors   int           // answered in a row, of whatever kind, see Doubted
	excused  time.Duration // until when Erred counts no failure
	answered bool          // the last request that counts did not fail
	answer   time.Duration // when it last answered one
	timeouts int           // how many of these were timeouts
	trials   int           // that have succeeded
	// released is when its trials began, and left how many requests from before it still
	// has. How those end says nothing about the replica as it is now.
	released time.Duration
	left     int
	recent   window
	spared   bool // a change has said so already

	probe   probe
	silence silence
	busy    busy
	capSet  int // the cap that the ledger has
	before  int // own requests in flight when it was ejected
}

// New makes a Monitor of the replicas of the ledger's table, all up. Addresses are where
// they are reached, in the table's order: if one cannot be connected to, no other of the
// same address can. An empty address is shared with no other. The seed is that of the
// cooldowns' jitter.
func New(c Config, l *fleet.Ledger, addresses []string, seed uint64) *Monitor {
	n := len(l.Table().Replicas)
	m := &Monitor{
		config: c, ledger: l, addresses: addresses,
		signs: make([]atomic.Uint64, n), replicas: make([]replica, n),
		random: rand.New(rand.NewPCG(seed, 0x6865616c7468)),
	}
	return m
}

// Set changes the configuration. An ejected replica keeps its cooldown. With another window
// the shares of failures start again from nothing. Where probes are turned off, their
// results no longer count. [Monitor.Advance] is due then.
func (m *Monitor) Set(c Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.config
	m.config = c
	for i := range m.replicas {
		r := &m.replicas[i]
		if c.Window != before.Window {
			r.recent = window{}
		}
		if c.ProbeInterval == 0 {
			r.probe = probe{}
		}
		if r.Note != "" && (c.ProbeInterval == 0 || !c.ProbeModels) {
			r.Note, r.until = "", 0
		}
		if r.State == HalfOpen {
			m.limit(i, r.left+c.Trials)
		}
	}
}

// Failed records that the replica failed a request that was sent at the time sent.
func (m *Monitor) Failed(i int, why Failure, sent, now time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed(i, why, sent, now)
	return m.changed()
}

func (m *Monitor) failed(i int, why Failure, sent, now time.Duration) {
	if m.old(i, sent) {
		return
	}
	m.replicas[i].answered = false
	if why == Connect {
		m.unreachable(i, now)
		return
	}
	r := &m.replicas[i]
	r.recent.add(now, m.config.Window, true)
	r.failures++
	r.errors++
	if why == Timeout {
		r.timeouts++
	}
	reason := Failing
	switch {
	case r.timeouts == r.failures:
		reason = Silent
	case why == ErrorAlone:
		reason = Alone
	}
	switch all, failed := r.recent.sum(); {
	case r.State == Ejected:
		// It was sent before the ejection, and says nothing new.
	case r.State == HalfOpen:
		m.eject(i, reason, now)
	case m.config.Failures > 0 && r.failures >= m.config.Failures:
		m.eject(i, reason, now)
	case m.unreliable(all, failed):
		m.eject(i, Unreliable, now)
	}
}

// Succeeded records that the replica answered a request whole that was sent at the time
// sent.
func (m *Monitor) Succeeded(i int, sent, now time.Duration) []Change {
	m.Sign(i)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.succeeded(i, sent, now)
	return m.changed()
}

func (m *Monitor) succeeded(i int, sent, now time.Duration) {
	if m.old(i, sent) {
		return
	}
	r := &m.replicas[i]
	r.recent.add(now, m.config.Window, false)
	r.answered, r.answer = true, now
	r.failures, r.timeouts, r.errors, r.spared, r.busy.pause = 0, 0, 0, false, 0
	m.tried(i, now)
}

// Unseen records that a request is over by estimate that was sent at the time sent, and that its answer did not pass
// through the router. It counts as one of the trials, which would never end otherwise, and as no sign of progress.
func (m *Monitor) Unseen(i int, sent, now time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.old(i, sent) {
		m.tried(i, now)
	}
	return m.changed()
}

// tried counts a trial that did not fail.
func (m *Monitor) tried(i int, now time.Duration) {
	r := &m.replicas[i]
	if r.State != HalfOpen {
		return
	}
	if r.trials++; r.trials >= m.config.Trials {
		m.restart(i, now)
	}
}

// lately is for how long after an answer a replica counts as one that can answer.
const lately = time.Minute

// Answers reports whether the replica has answered a request lately, and failed none since.
func (m *Monitor) Answers(i int, now time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	return r.answered && now-r.answer < lately
}

// old reports whether a request that has ended was sent before the replica's trials began.
// Such a request is none of the trials; while they last, its end lowers the cap.
func (m *Monitor) old(i int, sent time.Duration) bool {
	r := &m.replicas[i]
	if sent >= r.released {
		return false
	}
	if r.State == HalfOpen && r.left > 0 {
		r.left--
		m.limit(i, r.left+m.config.Trials)
	}
	return true
}

// unreachable ejects all replicas of the address.
func (m *Monitor) unreachable(i int, now time.Duration) {
	m.eject(i, Unreachable, now)
	if m.addresses[i] == "" {
		return
	}
	for j, address := range m.addresses {
		if j != i && address == m.addresses[i] {
			m.eject(j, Unreachable, now)
		}
	}
}

// eject ejects the replica, unless too many are out. One that is out already stays so for
// no longer, but may become one that only probes bring back.
func (m *Monitor) eject(i int, why Reason, now time.Duration) {
	r := &m.replicas[i]
	if r.vacant {
		return
	}
	if r.State == Ejected {
		r.hard = r.hard || why.hard()
		return
	}
	if why != Unreachable && why != Unlisted && why != Gone && !m.expendable(1) {
		if !r.spared {
			r.spared = true
			m.changes = append(m.changes, Change{Replica: i, From: r.State, To: r.State, Why: why, Spared: true})
		}
		r.failures, r.timeouts, r.recent = 0, 0, window{}
		return
	}
	if r.State == Up && now-r.Since > m.config.MaxCooldown {
		r.level = 0
	}
	cooldown := m.cooldown(r.level)
	r.level++
	r.until, r.hard = now+cooldown, why.hard()
	r.probe.passed = false
	m.ledger.View(now, &m.view)
	r.before = m.view.Own(i)
	m.ledger.SetUp(i, false)
	m.step(i, Ejected, why, now)
	m.changes[len(m.changes)-1].Cooldown = cooldown
}

// expendable reports whether this many more replicas may be out for how they answered.
func (m *Monitor) expendable(more int) bool {
	out := more
	for i := range m.replicas {
		if m.replicas[i].State == Ejected {
			out++
		}
	}
	return float64(out) <= m.config.MaxEjected*float64(m.present())
}

// cooldown returns the cooldown after level earlier ejections. It is up to a fifth shorter,
// at random, so that replicas that were ejected together do not come back together.
func (m *Monitor) cooldown(level int) time.Duration {
	d := m.config.Cooldown
	for ; level > 0 && d < m.config.MaxCooldown; level-- {
		d *= 2
	}
	d = min(d, m.config.MaxCooldown)
	return d - time.Duration(m.random.Float64()*float64(d)/5)
}

// step puts the replica into another state, and resets its counts.
func (m *Monitor) step(i int, to State, why Reason, now time.Duration) {
	r := &m.replicas[i]
	m.changes = append(m.changes, Change{Replica: i, From: r.State, To: to, Why: why})
	r.State, r.Since, r.Why = to, now, why
	r.failures, r.timeouts, r.errors, r.trials, r.spared, r.recent = 0, 0, 0, 0, false, window{}
	switch to {
	case HalfOpen:
		r.silence.since = 0 // a trial has its own time
	case Ejected:
		r.busy.on = false
	}
	if to != SlowStart { // grow sets its cap: a moment without one would admit the whole queue
		m.limit(i, 0)
	}
}

// limit bounds the router's own requests on the replica by what its state allows, zero for
// all, and by what it has room for.
func (m *Monitor) limit(i, most int) {
	r := &m.replicas[i]
	r.Cap = most
	if most = r.busy.bound(most); r.capSet != most {
		r.capSet = most
		m.ledger.SetCap(i, most)
	}
}

func (m *Monitor) changed() []Change {
	out := m.changes
	m.changes = nil
	return out
}

// Statuses returns the status of all replicas.
func (m *Monitor) Statuses() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Status, len(m.replicas))
	for i := range m.replicas {
		out[i] = m.replicas[i].Status
		out[i].Busy = m.replicas[i].busy.on
	}
	return out
}
