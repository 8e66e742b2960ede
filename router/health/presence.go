package health

import "time"

// Vacate forgets what is known of the replica, whose engine is gone. Nothing counts for or against it until
// [Monitor.Occupy].
func (m *Monitor) Vacate(i int, now time.Duration) { m.renew(i, "", true, now) }

// Occupy has another engine, at the address, answer for the replica from now on, with nothing held against it.
// Requests that were sent before count for nothing.
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

// present returns how many replicas have an engine.
func (m *Monitor) present() (n int) {
	for i := range m.replicas {
		if !m.replicas[i].vacant {
			n++
		}
	}
	return n
}
