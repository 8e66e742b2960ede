package health

import (
	"math"
	"time"
)

// ramp is the number of steps of a slow start.
const ramp = 50

// Advance does what is due: ejected replicas whose cooldown is over go on trial, the share
// of those that come back grows, and busy ones get more again. It returns when to call it
// next; ok is false if nothing is due before another method is called.
func (m *Monitor) Advance(now time.Duration) (changes []Change, next time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next = math.MaxInt64
	for i := range m.replicas {
		r := &m.replicas[i]
		if at, more := m.ease(i, now); more {
			next = min(next, at)
		}
		switch r.State {
		case Ejected:
			if !m.release(i, now) && now < r.until {
				next = min(next, r.until)
			}
		case SlowStart:
			if end := r.Since + m.config.SlowStart; now >= end {
				m.step(i, Up, "", now)
			} else {
				m.grow(i, now)
				next = min(next, end, now+max(time.Millisecond, m.config.SlowStart/ramp))
			}
		}
	}
	return m.changed(), next, next != math.MaxInt64
}

// release puts an ejected replica on trial, and reports whether it did. The cooldown must
// be over. Where the server is probed, no probe may have failed since; and if the connection
// had failed, a passed probe ends the cooldown early the first time, whenever more replicas are
// out than may be for how they answered, since the rest would refuse what these could answer, and
// once another replica of the same server is back.
func (m *Monitor) release(i int, now time.Duration) bool {
	r := &m.replicas[i]
	waited := now >= r.until
	switch {
	case r.Note != "", r.gone: // until its server has its model, or its host is back
		return false
	case !r.probe.has:
	case r.hard:
		waited = r.probe.passed && (waited || r.level == 1 || !m.expendable(0) || m.reached(i))
	default:
		waited = waited && !r.probe.failing()
	}
	if !waited {
		return false
	}
	m.step(i, HalfOpen, r.Why, now)
	m.ledger.View(now, &m.view)
	r.released, r.left = now, m.view.Own(i)
	m.limit(i, r.left+m.config.Trials)
	m.ledger.SetUp(i, true)
	return true
}

// reached reports whether another replica of the same address takes requests.
func (m *Monitor) reached(i int) bool {
	for j, address := range m.addresses {
		if j != i && address != "" && address == m.addresses[i] && m.replicas[j].State != Ejected {
			return true
		}
	}
	return false
}

// restart begins the slow start of a replica whose trials succeeded.
func (m *Monitor) restart(i int, now time.Duration) {
	if m.config.SlowStart == 0 {
		m.step(i, Up, "", now)
		return
	}
	m.step(i, SlowStart, m.replicas[i].Why, now)
	m.grow(i, now)
}

// grow sets the cap of a replica in its slow start: its share of the requests that the
// others of its variant have now. Without a cap an empty replica would be the balancer's
// first choice for everything until its batch is as large as theirs. If it is the only one
// of its variant, the cap is a share of its limit.
func (m *Monitor) grow(i int, now time.Duration) {
	r := &m.replicas[i]
	m.ledger.View(now, &m.view)
	table := m.view.Table
	var sum, others int
	for _, j := range table.ReplicasOf(table.Replicas[i].Variant) {
		if m.replicas[j].State == Up && !m.view.Down[j] {
			sum += m.view.Own(j)
			others++
		}
	}
	full := float64(table.Replicas[i].Limit)
	if others > 0 {
		full = float64(sum) / float64(others)
	} else if full == 0 {
		full = float64(max(r.before, sparse))
	}
	share := float64(now-r.Since) / float64(m.config.SlowStart)
	m.limit(i, max(m.config.Trials, int(math.Ceil(share*full))))
}

// sparse is the least full load that the slow start assumes of a replica without a limit and
// without others of its variant.
const sparse = 64
