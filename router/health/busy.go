package health

import (
	"time"

	"gearshift/router/fleet"
)

const (
	// shortPause is for how long a replica that has no room gets no more requests at first,
	// and longPause for how long at most, unless its answer asks for more. While refusals go
	// on each pause takes twice as long.
	shortPause = 100 * time.Millisecond
	longPause  = 2 * time.Second
	// forgotten is how long after its last refusal a replica is no longer busy.
	forgotten = 10 * time.Second
	// growth is the divisor of its bound by which that grows after each pause.
	growth = 8
)

// busy bounds the requests of a replica that refused one for want of room. That happens
// where other clients use it as well, or its own limit is below the scenario's. The bound
// is found by trial: no more than it had when it last refused a request, and then a little
// more at a time, less often each time that it refuses that.
type busy struct {
	on     bool
	room   int           // requests of the router's own that it gets; zero is none
	pause  time.Duration // the last, of one that had none of them
	step   time.Duration // between two trials of one that has some
	tried  bool          // it has got more since its last refusal
	until  time.Duration // when it gets more
	last   time.Duration // of its refusals
	signs  uint64        // of progress, at the last refusal of any kind
	lively time.Duration // until when it counts as at work
}

// Busy records that the replica refused a request for want of room; the request still
// counts there. Spare is the time for which it asked to get no more, zero if it did not.
// Sure is false where its answer may also mean that it cannot answer at all; then the
// refusal counts only while answers come from there. Busy reports whether it counts. If
// not, it is a failure. [Monitor.Advance] is due then. The last replica that takes requests
// continues to get them.
func (m *Monitor) Busy(i int, sure bool, spare, now time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	b := &r.busy
	if signs := m.signs[i].Load(); signs != b.signs {
		b.signs, b.lively = signs, now+longPause
	}
	if !sure && now >= b.lively {
		return false
	}
	m.ledger.View(now, &m.view)
	room := max(0, m.view.Own(i)-1)
	if r.State == Ejected || room == 0 && !m.othersTake(i) {
		return true
	}
	switch {
	case !b.on:
		b.step = shortPause
	case b.tried:
		b.step = min(2*b.step, longPause)
	}
	pause := b.step
	if room == 0 {
		pause = min(max(2*b.pause, shortPause), longPause)
		b.pause = pause
	}
	b.on, b.tried, b.room, b.last = true, false, room, now
	b.until = now + max(pause, min(spare, m.config.Cooldown))
	m.limit(i, r.Cap)
	return true
}

// othersTake reports whether any other replica of the view may get a request.
func (m *Monitor) othersTake(i int) bool {
	for j := range m.replicas {
		if b := &m.replicas[j].busy; j != i && !m.view.Down[j] && !(b.on && b.room == 0) {
			return true
		}
	}
	return false
}

// ease gives a busy replica a little more room if its pause is over. It returns when to
// call it again, and false if the replica is no longer busy.
func (m *Monitor) ease(i int, now time.Duration) (next time.Duration, ok bool) {
	b := &m.replicas[i].busy
	if !b.on {
		return 0, false
	}
	switch {
	case now < b.until:
		return b.until, true
	case now-b.last >= forgotten:
		b.on = false
	default:
		if b.tried { // and it did not refuse that
			b.step = max(b.step/2, shortPause)
		}
		b.room, b.tried = b.room+max(1, b.room/growth), true
		b.until = now + b.step
	}
	m.limit(i, m.replicas[i].Cap)
	return b.until, b.on
}

// bound returns how many of the router's own requests the replica may have, given how many
// its state allows; zero is no bound.
func (b *busy) bound(most int) int {
	switch {
	case !b.on || most > 0 && most <= b.room:
		return most
	case b.room == 0:
		return fleet.Closed
	}
	return b.room
}
