package health

import "time"

// Finding is what a probe of a server found.
type Finding uint8

// The findings.
const (
	// Well: it answered, and not with a server error.
	Well Finding = iota
	// Refused: it refused the connection.
	Refused
	// Unconnected: no connection was made in time, or nobody is there.
	Unconnected
	// Unsound: it answered with a server error.
	Unsound
	// Late: it did not answer in time.
	Late
)

var findings = [...]string{"well", "refused", "unconnected", "error", "timeout"}

// Findings lists all findings.
var Findings = []Finding{Well, Refused, Unconnected, Unsound, Late}

// String is the finding as metrics have it.
func (f Finding) String() string { return findings[f] }

// probe is what probes have found of a replica.
type probe struct {
	has    bool // it is probed at all
	passed bool // the last one, and since the replica was ejected
	missed int  // how many in a row
	gone   int  // how many in a row found nobody there, while nothing came from there either
	signs  uint64
}

func (p *probe) failing() bool { return p.missed > 0 }

// Probed notes what a probe of the replica's server found.
func (m *Monitor) Probed(i int, f Finding, now time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
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
