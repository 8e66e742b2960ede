package health

import (
	"math"
	"time"
)

// ramp is in how many parts a slow start goes.
const ramp = 50

// Advance does what is due: ejected replicas whose cooldown is over go on trial,
// the share of those that come back grows, and those that are busy get more again. It
// returns when to call it next, or ok false if nothing is to come but what other calls
// bring.
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

// release puts an ejected replica on trial if it may be. Where a server is
// probed, that must not have failed since; and if it was the connection that
// failed, a probe that succeeds is as good as the wait, the first time.
func (m *Monitor) release(i int, now time.Duration) bool {
	r := &m.replicas[i]
	waited := now >= r.until
	switch {
	case r.Note != "": // until its server has its model
		return false
	case !r.probe.has:
	case r.hard:
		waited = r.probe.passed && (waited || r.level == 1)
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

// restart lets a replica whose trials succeeded come back slowly.
func (m *Monitor) restart(i int, now time.Duration) {
	if m.config.SlowStart == 0 {
		m.step(i, Up, "", now)
		return
	}
	m.step(i, SlowStart, m.replicas[i].Why, now)
	m.grow(i, now)
}

// grow sets the cap of a replica that comes back to its share of what the
// others of its variant carry now: an empty replica would be the balancer's
// first choice for everything until its batch is as large as theirs. They take
// what it does not. Where it has no such others, its limit grows instead.
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

// sparse is what a replica without limit and without others of its variant
// comes to carry at least in its slow start.
const sparse = 64
