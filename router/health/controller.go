package health

import (
	"time"

	"gearshift/router/control"
)

// Controller makes a Monitor a [control.Controller]. Events are its evidence, which it
// processes when it is woken. It writes the results into the ledger and reports them to
// OnChange.
type Controller struct {
	*Monitor
	// OnChange, if set, is called with each change, within Wake.
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
	c.report(changes, now)
	if !more {
		return control.Never
	}
	return next
}

// note processes one event as evidence about the replica. A heartbeat counts as a passed
// probe, and a missed one as a failed probe.
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
		changes = c.Probed(i, Errored, e.At)
	case control.ProbePassed, control.Heartbeat:
		changes = c.Probed(i, Well, e.At)
	}
	c.report(changes, e.At)
}

func (c *Controller) report(changes []Change, now time.Duration) {
	if c.OnChange == nil {
		return
	}
	for _, change := range changes {
		c.OnChange(change, now)
	}
}
