package health

import "time"

// Leave takes the replica out, since its host is lost: until [Monitor.Return], whatever probes find
// and however many others are out. Requests that it has will not be answered.
func (m *Monitor) Leave(i int, now time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	if r.gone {
		return nil
	}
	r.gone = true
	m.eject(i, Gone, now)
	m.changes = append(m.changes, Change{Replica: i, From: r.State, To: r.State, Why: Gone, Lost: true})
	return m.changed()
}

// Return gives the replica its full share at once, without trials: its host has said that it is
// well. One that was out for another reason before its host was lost is up too, unless its server
// lacks its model.
func (m *Monitor) Return(i int, now time.Duration) []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	r.gone = false
	r.probe.missed, r.probe.gone, r.hard, r.level = 0, 0, false, 0
	if r.State == Up || r.Note != "" {
		return nil
	}
	ejected := r.State == Ejected
	m.step(i, Up, "", now)
	if ejected {
		r.released, r.left = now, 0
		m.ledger.SetUp(i, true)
	}
	return m.changed()
}
