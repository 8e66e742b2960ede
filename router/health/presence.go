package health

import "time"

// Vacate clears the replica's health, since its engine is gone. Results are ignored until [Monitor.Occupy].
func (m *Monitor) Vacate(i int, now time.Duration) { m.renew(i, "", true, now) }

// Occupy starts the health of another engine at the address, without the failures of the one before. Results of
// requests sent earlier are ignored.
func (m *Monitor) Occupy(i int, address string, now time.Duration) { m.renew(i, address, false, now) }

func (m *Monitor) renew(i int, address string, vacant bool, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	signs := m.signs[i].Load()
	m.replicas[i] = replica{
		Status: Status{Since: now}, vacant: vacant, released: now, capSet: m.replicas[i].capSet,
		probe: probe{signs: signs}, silence: silence{signs: signs}, busy: busy{signs: signs},
	}
	m.addresses[i] = address
	m.limit(i, 0)
	m.ledger.SetUp(i, true)
}

// present counts the replicas that have an engine.
func (m *Monitor) present() (n int) {
	for i := range m.replicas {
		if !m.replicas[i].vacant {
			n++
		}
	}
	return n
}
