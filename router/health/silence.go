package health

import "time"

// lesson bounds how long a silence may teach, in multiples of SilentAfter: one
// that was a fault may end in progress too.
const lesson = 2

// quiet is how long a replica has shown no progress.
type quiet struct {
	signs uint64        // at the last look
	busy  bool          // had work then
	since time.Duration // for which it had work and no progress: a sum
	heard time.Duration // when it last progressed
	// longest silence that ended in progress: it was work, not a fault.
	longest time.Duration
}

// Sign notes that the replica showed progress: tokens of an answer came, or a
// whole one. It is cheap.
func (m *Monitor) Sign(i int) { m.signs[i].Add(1) }

// Listen looks for replicas that accept work and answer nothing, while others
// progress: whatever they say of themselves, they are ejected as [Silent]. Work
// is, by replica, how many requests wait for an answer there, and held how many others
// somebody waits for elsewhere. It is to be called several times within
// [Config.SilentAfter]; elapsed is the time since the last call.
func (m *Monitor) Listen(work, held []int, now, elapsed time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config.SilentAfter == 0 {
		return nil
	}
	for i := range m.replicas {
		m.hear(i, work[i] > 0, now, elapsed)
		if r := &m.replicas[i]; r.State == HalfOpen && work[i]+held[i] < r.left {
			r.left = work[i] + held[i] // clients gave up
			m.limit(i, r.left+m.config.Trials)
		}
	}
	for i := range m.replicas {
		if q := &m.replicas[i].quiet; q.since >= m.patienceWith(i) && m.othersProgress(i, now) {
			m.eject(i, Silent, now)
		}
	}
	return m.changed()
}

// hear updates how long the replica has been quiet. Work that is taken back
// without an answer, as by clients that give up, does not count as progress.
func (m *Monitor) hear(i int, busy bool, now, elapsed time.Duration) {
	r := &m.replicas[i]
	q := &r.quiet
	signs := m.signs[i].Load()
	switch {
	case signs != q.signs:
		q.longest = max(q.longest, min(q.since, lesson*m.config.SilentAfter))
		q.signs, q.since, q.heard = signs, 0, now
		if r.State == Ejected && r.Why == Silent {
			r.until = min(r.until, now) // it speaks again
			m.release(i, now)
		}
	case busy && q.busy:
		q.since += elapsed
	}
	q.busy = busy
}

// patienceWith the replica grows with the silences of its variant that were
// none: whole answers, which nobody streams, may take long.
func (m *Monitor) patienceWith(i int) time.Duration {
	var longest time.Duration
	table := m.ledger.Table()
	for _, j := range table.ReplicasOf(table.Replicas[i].Variant) {
		longest = max(longest, m.replicas[j].quiet.longest)
	}
	return max(m.config.SilentAfter, 2*longest)
}

// othersProgress says whether any other replica has shown progress of late:
// without that, nobody asks, or all suffer from the same.
func (m *Monitor) othersProgress(i int, now time.Duration) bool {
	for j := range m.replicas {
		if q := &m.replicas[j].quiet; j != i && q.heard > 0 && now-q.heard < m.config.SilentAfter {
			return true
		}
	}
	return false
}
