package health

import (
	"time"

	"gearshift/router/fleet"
)

const (
	// shortPause is how long a replica that has no room is left as it is, and longPause
	// how long at most, unless it says so itself.
	shortPause = 100 * time.Millisecond
	longPause  = 2 * time.Second
	// forgotten is how long after its last refusal a replica counts as busy no more.
	forgotten = 10 * time.Second
	// growth is what part of its requests it is given more after each pause.
	growth = 8
)

// busy is how a replica is treated that refused a request for want of room, as one does
// that others use as well, or whose own limit is below the scenario's. How much it can take
// nobody says, so it is found: it gets no more than it had when it last refused one, and
// then a little more at a time.
type busy struct {
	on     bool
	room   int           // requests of the router's own that it gets; zero is none
	pause  time.Duration // the last, of one that had none of them
	until  time.Duration // when it gets more
	said   time.Duration // when it last refused one
	signs  uint64        // of progress, at the last refusal of any kind
	lively time.Duration // until when it counts as at work
}

// Busy notes that the replica refused a request that is still counted there, for want of
// room, and for how long it asked to be spared; zero if it did not say. Sure is false
// where what it said may as well mean that it cannot answer at all: then it counts only
// while answers come from there. Busy reports whether it counts; it is a failure if not.
// [Monitor.Advance] is due then. The last replica that takes requests goes on to.
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
	pause := shortPause
	if room == 0 {
		pause = min(max(2*b.pause, shortPause), longPause)
		b.pause = pause
	}
	b.on, b.room, b.said = true, room, now
	b.until = now + max(pause, min(spare, m.config.Cooldown))
	m.limit(i, r.Cap)
	return true
}

// othersTake says whether any other replica of the view may get a request.
func (m *Monitor) othersTake(i int) bool {
	for j := range m.replicas {
		if b := &m.replicas[j].busy; j != i && !m.view.Down[j] && !(b.on && b.room == 0) {
			return true
		}
	}
	return false
}

// ease gives a busy replica a little more, if it is time to. It returns when to come again,
// false if never.
func (m *Monitor) ease(i int, now time.Duration) (next time.Duration, ok bool) {
	b := &m.replicas[i].busy
	if !b.on {
		return 0, false
	}
	switch {
	case now < b.until:
		return b.until, true
	case now-b.said >= forgotten:
		b.on = false
	default:
		b.room += max(1, b.room/growth)
		b.until = now + shortPause
	}
	m.limit(i, m.replicas[i].Cap)
	return b.until, b.on
}

// bound is what the replica may have of the router's own requests, of which its state
// lets it have so many; zero is no bound.
func (b *busy) bound(most int) int {
	switch {
	case !b.on || most > 0 && most <= b.room:
		return most
	case b.room == 0:
		return fleet.Closed
	}
	return b.room
}
