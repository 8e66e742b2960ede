package control

import "time"

// Set combines several controllers. At equal times they act in the order in which they were
// added. The zero value is empty.
type Set struct {
	members []member
}

type member struct {
	controller Controller
	due        time.Duration
}

// NewSet makes a set whose members are all due at time 0.
func NewSet(controllers ...Controller) *Set {
	s := &Set{}
	for _, c := range controllers {
		s.Add(c)
	}
	return s
}

// Add adds a controller after the others. It is woken the next time that the set is.
func (s *Set) Add(c Controller) { s.members = append(s.members, member{controller: c}) }

// Observe passes the event to all of them, each of which is then due at its time. A controller
// must not answer each event of its own with another, or the moment never ends.
func (s *Set) Observe(e Event) {
	for i := range s.members {
		m := &s.members[i]
		m.controller.Observe(e)
		m.due = min(m.due, e.At)
	}
}

// Note passes on an event that changes nothing now, such as a heartbeat that came in time: they see it when
// they are due next.
func (s *Set) Note(e Event) {
	for i := range s.members {
		s.members[i].controller.Observe(e)
	}
}

// Rouse makes all of them due now. Call it when something that they wait for may have
// changed without an event.
func (s *Set) Rouse(now time.Duration) {
	for i := range s.members {
		s.members[i].due = min(s.members[i].due, now)
	}
}

// Next returns when the earliest of them is due, or [Never].
func (s *Set) Next() time.Duration {
	next := Never
	for i := range s.members {
		next = min(next, s.members[i].due)
	}
	return next
}

// Wake wakes those that are due and returns when the earliest is due next. One that asks
// for a time that is not after now gets the next nanosecond, so that time goes on.
func (s *Set) Wake(now time.Duration) time.Duration {
	for i := range s.members {
		if m := &s.members[i]; m.due <= now {
			// An event that comes while it is awake makes it due again.
			m.due = Never
			next := max(m.controller.Wake(now), now+1)
			m.due = min(m.due, next)
		}
	}
	return s.Next()
}
