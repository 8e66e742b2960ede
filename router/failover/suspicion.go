package failover

import (
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
)

// suspicion holds what is known of a host whose heartbeats are overdue, until it gives another
// sign of life or is lost.
type suspicion struct {
	held     bool
	looked   time.Duration // when the controller looked last
	listened time.Duration // for how long it has, without a sign
}

// look sets how often a suspicion is looked at. Of the time between two looks no more than that
// counts: if the controller is woken later, its own process or its whole machine stood still, and
// heartbeats that have come may be unread.
const look = 10 * time.Millisecond

// For how many heartbeats a host is suspected, if that is longer than [Options.Confirm]: where no
// agent at all is heard, since the controller itself seems cut off and nothing could take over
// anyway; and where a model is being loaded, which can take all of a machine's processors.
const (
	aloneFor   = 5
	loadingFor = 10
)

// Bounds of how much longer heartbeats of a host are waited for that were late: so many of them,
// for so long until it is half as many.
const (
	slackMost = 10
	slackHalf = 30 * time.Second
)

// learn has a host be waited for half as long again as it was silent, if that was no loss: where a
// machine is short of processors, heartbeats are late again and again. For how long the controller
// itself stood still does not count.
func (c *Controller) learn(s *host, silence time.Duration) {
	usual, most := c.deadline(s)-s.heard, slackMost*c.options.Heartbeat
	switch x := &s.suspicion; {
	case c.alone: // it is the controller that did not hear
		return
	case x.held:
		silence = min(silence, usual+c.slack(s)+x.listened+look)
	case s.condition != Lost || s.drill || silence > usual+2*most:
		return
	}
	if more := min(most, silence*3/2-usual-c.options.Confirm); more > c.slack(s) {
		s.slack, s.learnt = more, c.now
	}
}

// slack returns how much longer heartbeats of the host are waited for now.
func (c *Controller) slack(s *host) time.Duration {
	return s.slack >> min(62, max(0, (c.now-s.learnt)/slackHalf))
}

// overdue finds hosts whose heartbeats do not come, and those that have been well for long
// enough.
func (c *Controller) overdue() {
	alone := c.isAlone()
	if c.alone && !alone { // one is heard again: the others are about to be
		for i := range c.hosts {
			x := &c.hosts[i].suspicion
			x.looked, x.listened = c.now, 0
		}
	}
	c.alone = alone
	for i := range c.hosts {
		s := &c.hosts[i]
		if s.condition == Returned && c.now >= s.since+c.options.ReturnAfter {
			c.usableNow(i)
		}
		if c.late(i) > c.now {
			s.suspicion.held = false
		} else if c.confirmed(i) {
			c.lose(i, c.lateness(i), false)
		}
	}
}

// confirmed suspects a host whose heartbeats are overdue, and reports whether it has given no
// other sign of life for long enough.
func (c *Controller) confirmed(i int) bool {
	x := &c.hosts[i].suspicion
	if c.options.Confirm == 0 {
		return true
	}
	if !x.held {
		*x = suspicion{held: true, looked: c.now}
		c.counts.Suspicions++
		if c.options.Ask != nil {
			c.options.Ask(i)
		}
		return false
	}
	x.listened += min(c.now-x.looked, look)
	x.looked = c.now
	return x.listened >= c.window(i)
}

// window is for how long a host that is suspected is listened to.
func (c *Controller) window(i int) time.Duration {
	switch {
	case slices.ContainsFunc(c.on[i], func(x *assignment) bool { return x.phase == loading }):
		return max(c.options.Confirm, loadingFor*c.options.Heartbeat)
	case c.alone:
		return max(c.options.Confirm, aloneFor*c.options.Heartbeat)
	}
	return c.options.Confirm
}

// isAlone reports whether the heartbeats of all agents are overdue, of two at least.
func (c *Controller) isAlone() bool {
	known := 0
	for i := range c.hosts {
		if s := &c.hosts[i]; s.agent {
			if known++; c.now < c.deadline(s) {
				return false
			}
		}
	}
	return known > 1
}

func (c *Controller) lateness(i int) string {
	if s := &c.hosts[i]; s.broken >= 0 && s.broken < c.deadline(s) {
		return "a request broke there, and a heartbeat is overdue"
	}
	return fmt.Sprintf("%d heartbeats did not come", c.options.Misses)
}

// deadline is until when the heartbeats of a host are in time.
func (c *Controller) deadline(s *host) time.Duration {
	return s.heard + time.Duration(c.options.Misses)*c.options.Heartbeat
}

// late returns when the host is suspected unless a heartbeat comes.
func (c *Controller) late(i int) time.Duration {
	s := &c.hosts[i]
	switch {
	case c.options.Heartbeat < 0 || s.condition == Lost || !s.agent && !s.resumed:
		return control.Never
	case s.resumed: // the controller has just begun: agents come back
		return s.heard + c.options.ReturnAfter
	}
	at := c.deadline(s) + c.slack(s)
	if s.broken >= 0 { // one overdue is enough, a little late counting as in time
		at = min(at, max(s.broken, s.heard+c.options.Heartbeat*5/4))
	}
	if every := c.options.Sweep; every > 0 {
		at = (at + every - 1) / every * every
	}
	return at
}

// silent reports whether the host has not been heard when it should have been.
func (c *Controller) silent(i int) bool {
	s := &c.hosts[i]
	return s.condition == Lost || s.resumed || s.agent && c.options.Heartbeat > 0 && c.now > s.heard+c.options.Heartbeat*5/4
}

// due returns when something is to be done about the host.
func (c *Controller) due(i int) time.Duration {
	s := &c.hosts[i]
	at := c.late(i)
	if x := &s.suspicion; x.held && at <= c.now {
		at = x.looked + min(look, c.window(i)-x.listened)
	}
	if s.condition == Returned {
		at = min(at, s.since+c.options.ReturnAfter)
	}
	return at
}
