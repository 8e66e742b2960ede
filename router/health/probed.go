package health

import "time"

// Finding is the result of a probe of a server.
type Finding uint8

// The findings.
const (
	// Well: it answered, and not with a server error.
	Well Finding = iota
	// Refused: it refused the connection.
	Refused
	// Unconnected: no connection was made in time, or there is no route to the server.
	Unconnected
	// Errored: it answered with a server error.
	Errored
	// Late: it did not answer in time.
	Late
	// Absent: it has none of the paths that were probed.
	Absent
)

var findings = [...]string{"well", "refused", "unconnected", "error", "timeout", "absent"}

// Findings lists all findings.
var Findings = []Finding{Well, Refused, Unconnected, Errored, Late, Absent}

// String returns the finding's label in metrics.
func (f Finding) String() string { return findings[f] }

// probe sums up the probes of a replica.
type probe struct {
	has    bool // it is probed at all
	passed bool // the last one, and since the replica was ejected
	missed int  // how many in a row
	gone   int  // how many in a row could not connect, while no token came from there either
	signs  uint64
}

func (p *probe) failing() bool { return p.missed > 0 }

// Listed records whether the replica's server has its model. The note says in words that it
// does not, and is empty if it does or does not say. A replica without its model is out
// until it has it, even if all are.
func (m *Monitor) Listed(i int, note string, now time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	if r.vacant {
		return nil
	}
	before := r.Note
	r.Note = note
	switch {
	case note == before:
	case note != "":
		if r.State != Ejected {
			m.eject(i, Unlisted, now)
		} else {
			r.Why = Unlisted
			m.changes = append(m.changes, Change{Replica: i, From: r.State, To: r.State, Why: Unlisted})
		}
		if n := len(m.changes) - 1; n >= 0 {
			m.changes[n].Note = note
		}
	case r.State == Ejected:
		r.until = min(r.until, now) // the reason of its ejection is gone
		m.release(i, now)
	}
	return m.changed()
}

// Probed records the result of a probe of the replica's server.
func (m *Monitor) Probed(i int, f Finding, now time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	if r.vacant {
		return nil
	}
	signs := m.signs[i].Load()
	progressed := signs != r.probe.signs
	r.probe.has, r.probe.passed, r.probe.signs = true, f == Well, signs
	if r.probe.gone++; f != Unconnected || progressed {
		r.probe.gone = 0
	}
	switch {
	case f == Well:
		r.probe.missed = 0
		if r.State == Ejected {
			m.release(i, now)
		}
	case progressed && r.State != Ejected && (f == Late || f == Unconnected):
		// Its answers come: it is too busy for probes.
	case f == Absent:
		m.absent(i, now)
	case f == Refused || f == Unconnected:
		r.probe.missed++
		m.eject(i, Unreachable, now)
		if r.probe.gone == m.config.ProbeFailures {
			m.changes = append(m.changes, Change{Replica: i, From: r.State, To: r.State, Why: Unreachable, Lost: true})
		}
	default:
		if r.probe.missed++; r.probe.missed >= m.config.ProbeFailures || r.State == HalfOpen {
			m.eject(i, Unwell, now)
		}
	}
	return m.changed()
}

// absent records that the server has none of the probed paths. It may still have those that
// clients use: a replica that has answered a request stays, and trials decide about one
// that is out.
func (m *Monitor) absent(i int, now time.Duration) {
	r := &m.replicas[i]
	switch {
	case r.State == Ejected:
		r.probe.missed, r.hard = 0, false
		m.release(i, now)
	case r.answered || r.State == HalfOpen:
		r.probe.missed = 0
	default:
		if r.probe.missed++; r.probe.missed >= m.config.ProbeFailures {
			m.eject(i, Unwell, now)
			r.probe.missed, r.hard = 0, false
		}
	}
}
