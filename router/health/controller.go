package health

import (
	"time"

	"gearshift/router/control"
)

// Controller is the Monitor as a [control.Controller]: events are the evidence, which
// counts when it is woken. What becomes of replicas is in the ledger, and told to
// OnChange.
type Controller struct {
	*Monitor
	// OnChange, if set, is told of each change, within Wake.
	OnChange func(c Change, now time.Duration)

	events []control.Event
}

// Observe implements [control.Controller].
func (c *Controller) Observe(e control.Event) {
	if e.Kind <= control.ProbePassed {
		c.events = append(c.events, e)
	}
}

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) (next time.Duration) {
	for _, e := range c.events {
		if e.Replica >= 0 {
			c.note(e, e.Replica)
			continue
		}
		for _, i := range c.ledger.Table().ReplicasOn(e.Host) {
			c.note(e, i)
		}
	}
	c.events = c.events[:0]
	changes, next, more := c.Advance(now)
	c.tell(changes, now)
	if !more {
		return control.Never
	}
	return next
}

// note takes in one event as evidence of the replica. A heartbeat is a probe that the
// host makes of itself.
func (c *Controller) note(e control.Event, i int) {
	var changes []Change
	switch e.Kind {
	case control.Refused:
		changes = c.Failed(i, Connect, e.Began, e.At)
	case control.Broken:
		changes = c.Failed(i, Broken, e.Began, e.At)
	case control.Answered:
		changes = c.Succeeded(i, e.Began, e.At)
	case control.ProbeFailed, control.Missed:
		changes = c.Probed(i, Unsound, e.At)
	case control.ProbePassed, control.Heartbeat:
		changes = c.Probed(i, Well, e.At)
	}
	c.tell(changes, e.At)
}

func (c *Controller) tell(changes []Change, now time.Duration) {
	if c.OnChange == nil {
		return
	}
	for _, change := range changes {
		c.OnChange(change, now)
	}
}
