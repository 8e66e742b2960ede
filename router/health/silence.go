package health

import "time"

// lesson bounds the silences that patience adapts to, in multiples of SilentAfter: a fault
// may end in progress too, and must not count as work.
const lesson = 2

// silence is how long a replica has had work and shown no progress.
type silence struct {
	signs uint64        // at the last check
	busy  bool          // had work then
	since time.Duration // for which it had work and no progress: a sum
	last  time.Duration // when it last progressed
	// longest silence that ended in progress: it was work, not a fault.
	longest time.Duration
}

// Sign records that the replica showed progress: tokens of an answer came, or a whole one.
// It takes no lock, since it is called for each chunk of a stream.
func (m *Monitor) Sign(i int) { m.signs[i].Add(1) }

// Signs returns how often the replica has shown progress.
func (m *Monitor) Signs(i int) uint64 { return m.signs[i].Load() }

// CheckSilence ejects replicas that accept work and answer nothing while others progress, as
// [Silent], even if their probes pass. Work is, by replica, how many requests wait for an
// answer there; held is how many more leases are held there by clients that do not wait for
// the router. Call it several times within [Config.SilentAfter]; elapsed is the time since
// the last call.
func (m *Monitor) CheckSilence(work, held []int, now, elapsed time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config.SilentAfter == 0 {
		return nil
	}
	for i := range m.replicas {
		m.observeSilence(i, work[i] > 0, now, elapsed)
		if r := &m.replicas[i]; r.State == HalfOpen && work[i]+held[i] < r.left {
			r.left = work[i] + held[i] // clients gave up
			m.limit(i, r.left+m.config.Trials)
		}
	}
	for i := range m.replicas {
		if q := &m.replicas[i].silence; q.since >= m.patienceWith(i) && m.othersProgress(i, now) {
			m.eject(i, Silent, now)
		}
	}
	return m.changed()
}

// observeSilence updates how long the replica has been silent. Work that is taken back
// without an answer, as when clients give up, does not count as progress.
func (m *Monitor) observeSilence(i int, busy bool, now, elapsed time.Duration) {
	r := &m.replicas[i]
	q := &r.silence
	signs := m.signs[i].Load()
	switch {
	case signs != q.signs:
		q.longest = max(q.longest, min(q.since, lesson*m.config.SilentAfter))
		q.signs, q.since, q.last = signs, 0, now
		if r.State == Ejected && r.Why == Silent {
			r.until = min(r.until, now) // it answers again
			m.release(i, now)
		}
	case busy && q.busy:
		q.since += elapsed
	}
	q.busy = busy
}

// patienceWith returns how long the replica may be silent. It grows with the silences of its
// variant that ended in progress: answers that are not streamed may take long.
func (m *Monitor) patienceWith(i int) time.Duration {
	var longest time.Duration
	table := m.ledger.Table()
	for _, j := range table.ReplicasOf(table.Replicas[i].Variant) {
		longest = max(longest, m.replicas[j].silence.longest)
	}
	return max(m.config.SilentAfter, 2*longest)
}

// othersProgress reports whether any other replica has shown progress lately. If none has,
// there are no requests, or all have the same fault, and ejecting helps in neither case.
func (m *Monitor) othersProgress(i int, now time.Duration) bool {
	for j := range m.replicas {
		if q := &m.replicas[j].silence; j != i && q.last > 0 && now-q.last < m.config.SilentAfter {
			return true
		}
	}
	return false
}
