package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
)

// Condition says whether a host is used.
type Condition uint8

// The conditions.
const (
	Up       Condition = iota // used
	Lost                      // not there
	Returned                  // there again, not used before it has been well for a while
)

// String returns the condition in a word.
func (c Condition) String() string {
	switch c {
	case Lost:
		return "lost"
	case Returned:
		return "returned"
	}
	return "up"
}

// host is what is known of one.
type host struct {
	condition   Condition
	since       time.Duration // of the condition
	incarnation uint64        // 0: no agent has said
	agent       bool          // it sends heartbeats
	heard       time.Duration // the last heartbeat, or when to begin to wait for one
	missed      int           // heartbeats or probes, in a row
	broken      time.Duration // when a request broke there last; −1 since the last heartbeat
	dead        bool          // its process is known to be gone
	drill       bool
	resumed     bool // it was up when the controller died, and has not been heard since
	suspicion   suspicion
	others      float64 // memory that is not the assignments'
	// slack extends the wait for heartbeats since one was late, at the time learnt.
	slack  time.Duration
	learnt time.Duration
}

// take follows an event.
func (c *Controller) take(e *event) {
	switch {
	case e.drill:
		if s := &c.hosts[e.Host]; s.condition != Lost {
			c.step(StepDrill, e.Host, "")
			s.drill = true
			c.lose(e.Host, "it is a drill", false)
		}
	case e.back:
		c.back()
	case e.heard:
		c.register(e.Host, e.incarnation, e.loaded, e.At)
	case e.Kind <= control.ProbePassed:
		c.evidence(e)
	default:
		c.ended(e)
	}
}

// evidence follows what says that a host is there, or not.
func (c *Controller) evidence(e *event) {
	s := &c.hosts[e.Host]
	began := e.Began
	if began == 0 {
		began = e.At
	}
	switch e.Kind {
	case control.Heartbeat:
		s.agent = true
		c.learn(s, e.At-s.heard)
		c.alive(e.Host, e.At)
	case control.ProbePassed:
		if !s.agent || s.suspicion.held {
			c.alive(e.Host, e.At)
		}
	case control.Missed:
		if s.missed++; s.missed >= c.options.Misses {
			c.lose(e.Host, fmt.Sprintf("%d heartbeats did not come", s.missed), false)
		}
	case control.ProbeFailed:
		if s.agent {
			return
		}
		if s.missed++; s.missed >= c.options.Misses {
			c.lose(e.Host, fmt.Sprintf("%d probes failed", s.missed), false)
		}
	case control.Refused:
		if began >= s.heard && began >= s.since {
			c.lose(e.Host, cmp.Or(e.Reason, "it refuses connections"), true)
		}
	case control.Broken:
		if s.agent && e.At >= s.heard {
			s.broken = e.At
		}
	}
}

// regular takes in a heartbeat that changes nothing but when the host was heard, as nearly all do: they come more
// often than all else together.
func (c *Controller) regular(i int, at time.Duration) bool {
	s := &c.hosts[i]
	if s.condition != Up || !s.agent || s.resumed || s.drill || s.broken >= 0 || s.suspicion.held || at < s.heard {
		return false
	}
	s.heard, s.missed = at, 0
	return true
}

// alive follows a sign of life.
func (c *Controller) alive(i int, at time.Duration) {
	s := &c.hosts[i]
	silence := at - s.heard
	s.heard, s.missed, s.broken, s.resumed = max(s.heard, at), 0, -1, false
	if s.condition != Lost || s.drill {
		return
	}
	if s.dead && !s.agent {
		c.forget(i) // nothing listened: what comes back is another process
		c.returned(i, StepReturned, 0)
		return
	}
	c.counts.FalseAlarms++
	c.returned(i, StepFalseAlarm, silence)
}

// register follows the registration of an agent.
func (c *Controller) register(i int, incarnation uint64, list []Assignment, at time.Duration) {
	s := &c.hosts[i]
	known := s.incarnation
	s.agent, s.incarnation = true, incarnation
	if known == incarnation && known != 0 {
		c.alive(i, at)
		c.compare(i, list, known)
		return
	}
	s.heard, s.missed, s.broken, s.resumed, s.dead = max(s.heard, at), 0, -1, false, false
	if known != 0 && s.condition != Lost {
		c.lose(i, "it has started again", true)
	}
	c.compare(i, list, known)
	if s.condition == Lost && !s.drill {
		c.returned(i, StepReturned, 0)
	}
}

// returned has the host be used again after a while. It was silent for so long, if it has not
// been lost.
func (c *Controller) returned(i int, kind StepKind, silence time.Duration) {
	s := &c.hosts[i]
	s.condition, s.since, s.dead = Returned, c.now, false
	c.emit(Step{Kind: kind, Host: i, Application: -1, Variant: -1, Took: silence})
	c.dirty = true
	c.version++
}

// back follows the order to fail back now.
func (c *Controller) back() {
	for i := range c.hosts {
		s := &c.hosts[i]
		if s.drill {
			if s.drill = false; !s.agent || c.options.Heartbeat < 0 || c.now < s.heard+time.Duration(c.options.Misses)*c.options.Heartbeat {
				c.returned(i, StepReturned, 0)
			}
		}
		if s.condition == Returned {
			c.usableNow(i)
		}
	}
}

// usableNow has a host that has returned be used again.
func (c *Controller) usableNow(i int) {
	s := &c.hosts[i]
	s.condition, s.since = Up, c.now
	c.step(StepUsable, i, "")
	c.dirty = true
	c.version++
}

// lose follows the loss of a host.
func (c *Controller) lose(i int, why string, dead bool) {
	s := &c.hosts[i]
	s.dead = s.dead || dead
	if s.condition == Lost {
		return
	}
	if !c.open {
		c.failovers++
		c.counts.Failovers++
		c.steps = c.steps[:0]
	}
	c.open = true
	s.condition, s.since, s.suspicion = Lost, c.now, suspicion{}
	c.version++
	c.step(StepLost, i, why)
	for _, x := range c.on[i] {
		c.without(x.App, i)
	}
	for _, x := range slices.Clone(c.on[i]) {
		if x.phase == planned && x != c.apps[x.App].home {
			c.drop(x)
		}
	}
	c.dirty = true
}

// without takes what is on the host from the application's wants.
func (c *Controller) without(i, host int) {
	a := &c.apps[i]
	gone := func(x *assignment) bool { return x != nil && x.Host == host }
	if gone(a.target) {
		a.target, a.first = nil, nil
	}
	if gone(a.first) {
		a.first = nil
	}
	a.backups = remove(a.backups, gone)
	if gone(a.active) {
		a.moved = a.moved || a.active == a.home
		c.silence(i)
	}
}

// silence notes that the application has no active assignment any more.
func (c *Controller) silence(i int) {
	a := &c.apps[i]
	a.active, a.gap = nil, false
	c.version++
	if !a.down {
		a.down, a.since = true, c.now
		c.counts.Affected++
		c.stepApp(StepAffected, i, "")
	}
	c.dirty = true
}
