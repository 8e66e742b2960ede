package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) (next time.Duration) {
	next = control.Never
	for i := range c.models {
		c.judge(i, now)
		c.find(i, now)
		for j := range c.models[i].locations {
			for c.step(i, j, now) {
			}
		}
	}
	for i := range c.models {
		m := &c.models[i]
		c.age(i, now)
		if c.begin(i, now); m.rolling || m.changing() > 0 {
			next = now + c.options.Interval
		}
	}
	return next
}

// judge has the model go back if its new version is worse than the old.
func (c *Controller) judge(i int, now time.Duration) {
	m := &c.models[i]
	if !m.rolling || m.back {
		return
	}
	old, next := c.compare(i)
	switch why := c.options.Test.Worse(old, next); {
	case why == "":
		m.doubt = 0
	case m.doubt == 0:
		m.doubt = now
	case now-m.doubt >= c.options.Confirm:
		c.goBack(i, why, now)
	}
}

// find has the other replica of a location answer where the active one is not loaded and the other
// one is: after a crash what was saved last may be a little older than what engines have, and an engine
// that starts again may have an older version. Then the model is rolled again.
func (c *Controller) find(i int, now time.Duration) {
	m := &c.models[i]
	for j := range m.locations {
		p := &m.locations[j]
		other := 1 - p.active
		if p.phase != steady || !c.left(i, j) || p.versions[other] == "" || c.fleet.State(c.replica(i, j, p.active)) != fleet.Cold {
			continue
		}
		p.active = other
		c.fleet.Weigh(c.replica(i, j, other), 1)
		c.fleet.Weigh(c.replica(i, j, 1-other), 0)
		if found := p.versions[other]; found != m.wanted && !m.rolling && !c.models[i].RealTime {
			m.begin(m.wanted, found, now)
			m.reason = fmt.Sprintf("an engine has come back with version %q", found)
			c.rebase(i)
			c.report(Step{At: now, Kind: StepOrdered, Model: i, Location: j, From: found, To: m.wanted, Reason: m.reason})
		}
	}
}

// compare has what both versions of a roll have answered since it began.
func (c *Controller) compare(i int) (old, next Count) {
	m := &c.models[i]
	old = m.old
	for j := range m.locations {
		p, counts := &m.locations[j], c.countsAt(i, j)
		for k, version := range p.versions {
			switch version {
			case "":
			case m.from:
				old = old.plus(counts[k].minus(p.base[k]))
			case m.wanted:
				next = next.plus(counts[k].minus(p.base[k]))
			}
		}
	}
	return old, next
}

// age reports a version that has been wanted for too long.
func (c *Controller) age(i int, now time.Duration) {
	m := &c.models[i]
	if m.rolling && !m.overdue && c.late(m, now) {
		m.overdue = true
		c.report(Step{At: now, Kind: StepOverdue, Model: i, Location: -1, From: m.from, To: m.wanted, Took: now - m.since, Reason: m.waits})
	}
}

// late reports whether the version has been wanted for longer than the bound.
func (c *Controller) late(m *model, now time.Duration) bool {
	return c.options.StaleAfter > 0 && now-m.since > c.options.StaleAfter
}

// changing returns at how many locations something is being done.
func (m *model) changing() (n int) {
	for j := range m.locations {
		if m.locations[j].phase != steady {
			n++
		}
	}
	return n
}

// units returns how many changes are under way. Those of a model whose locations change together are one.
func (c *Controller) units() (n int) {
	for i := range c.models {
		m, x := &c.models[i], 0
		for j := range m.locations {
			if m.locations[j].phase != steady && !c.fleet.Lost(c.models[i].Locations[j].Host) {
				x++
			}
		}
		if c.options.Together {
			x = min(1, x)
		}
		n += x
	}
	return n
}

// begin begins what changes of the model may begin, and notes what the others wait for.
func (c *Controller) begin(i int, now time.Duration) {
	m := &c.models[i]
	m.waits = ""
	if !m.rolling {
		return
	}
	var list []int
	behind := false
	for j := range m.locations {
		p := &m.locations[j]
		due := p.versions[p.active] != m.wanted || c.left(i, j)
		if due && p.phase == steady && !m.paused && now >= m.known && !c.left(i, j) {
			switch c.fleet.State(c.replica(i, j, p.active)) {
			case fleet.Cold:
				c.renew(i, j, now)
				continue
			case fleet.Warm:
				c.discard(i, j, now)
			}
		}
		behind = behind || due || p.phase != steady
		if p.phase == steady && due {
			list = append(list, j)
		}
	}
	if !behind {
		c.end(i, now)
		return
	}
	switch {
	case m.paused:
		m.waits = "it is paused"
		return
	case now < m.retry:
		m.waits = "another try after a failure"
		return
	case m.doubt > 0:
		m.waits = "the new version looks worse"
		return
	}
	at := c.models[i].Locations
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(c.fleet.Busy(at[a].Host), c.fleet.Busy(at[b].Host)) })
	for _, j := range list {
		if why := c.try(i, j, now); why != "" && m.waits == "" {
			m.waits = why
		}
	}
}

// left reports whether the replica that does not answer is loaded all the same, as an unload has failed.
func (c *Controller) left(i, j int) bool {
	r := c.replica(i, j, 1-c.models[i].locations[j].active)
	return r >= 0 && c.fleet.State(r) == fleet.Up
}

// end follows a roll after which all locations have the version.
func (c *Controller) end(i int, now time.Duration) {
	m := &c.models[i]
	m.rolling, m.back, m.paused, m.overdue, m.tries = false, false, false, false, 0
	c.report(Step{At: now, Kind: StepDone, Model: i, Location: -1, From: m.from, To: m.wanted, Took: now - m.since, Reason: m.reason})
}

// try begins the change of a location, or says what it waits for.
func (c *Controller) try(i, j int, now time.Duration) (why string) {
	m, at := &c.models[i], &c.models[i].Locations[j]
	p := &m.locations[j]
	active := at.Replicas[p.active]
	switch s := c.fleet.State(active); {
	case c.left(i, j): // it comes first
	case s != fleet.Up:
		return fmt.Sprintf("a location is %v", s)
	}
	together := c.options.Together && m.changing() > 0
	if n := c.units(); n >= c.options.AtOnce && !together {
		return fmt.Sprintf("changes are under way: at most %d at once", c.options.AtOnce)
	}
	if busy := c.fleet.Busy(at.Host); busy >= c.options.Utilisation && c.options.Utilisation < 1 && !m.back && (!c.late(m, now) || c.options.OnlyReport) {
		return fmt.Sprintf("a host is at %.0f %%; changes begin below %.0f %%", 100*busy, 100*c.options.Utilisation)
	}
	other := 1 - p.active
	next := at.Replicas[other]
	switch {
	case c.left(i, j):
		p.change = change{phase: unloading, to: p.versions[p.active], began: now, since: now, loser: other}
		return ""
	case next >= 0 && c.fleet.State(next) == fleet.Cold && c.fleet.Fits(next):
		c.hold(i, j, other, m.wanted)
		p.change = change{phase: loading, to: m.wanted, began: now, since: now, loser: other}
		c.fleet.Weigh(next, 0)
	case next >= 0 && c.fleet.State(next) != fleet.Cold:
		return fmt.Sprintf("the second replica of a location is %v", c.fleet.State(next))
	case together:
		return "the other locations, which have room for both versions"
	case c.answering(i)-1 < c.least(i):
		return fmt.Sprintf("a host has no room for both versions, and %d locations have to answer meanwhile", c.least(i))
	default:
		p.change = change{phase: emptying, to: m.wanted, began: now, since: now}
		c.fleet.Weigh(active, 0)
	}
	c.report(Step{At: now, Kind: StepBegun, Model: i, Location: j, From: p.versions[p.active], To: p.to, Reason: p.phase.String()})
	return ""
}

// renew has the next load of a location that is cold be of the version that is wanted.
func (c *Controller) renew(i, j int, now time.Duration) {
	m := &c.models[i]
	c.hold(i, j, m.locations[j].active, m.wanted)
	c.report(Step{At: now, Kind: StepChanged, Model: i, Location: j, From: m.from, To: m.wanted, Reason: "it is cold"})
	m.counts.Changes++
}

// discard unloads the version that sleeps at a location, so that it is not the one that wakes.
func (c *Controller) discard(i, j int, now time.Duration) {
	if p := &c.models[i].locations[j]; now >= p.discards {
		p.discards = now + c.options.RetryAfter
		if err := c.fleet.Act(control.Action{Verb: control.Unload, Replica: c.replica(i, j, p.active)}); err != nil {
			c.models[i].reason = err.Error()
		}
	}
}

// least returns at how many of the model's locations something has to answer.
func (c *Controller) least(i int) int {
	loaded := 0
	for j := range c.models[i].locations {
		if p := &c.models[i].locations[j]; p.phase != steady || !c.rests(i, j) {
			loaded++
		}
	}
	return c.models[i].Least(loaded)
}

// rests reports whether the location is cold or asleep, so that nothing answers there.
func (c *Controller) rests(i, j int) bool {
	s := c.fleet.State(c.replica(i, j, c.models[i].locations[j].active))
	return s == fleet.Cold || s == fleet.Warm
}

// hold has a replica's next load be of the version, and its answers counted from now on.
func (c *Controller) hold(i, j, k int, version string) {
	m := &c.models[i]
	p := &m.locations[j]
	counts := c.countsAt(i, j)
	if p.versions[k] == m.from && m.rolling {
		m.old = m.old.plus(counts[k].minus(p.base[k]))
	}
	p.versions[k], p.base[k] = version, counts[k]
	c.fleet.Hold(c.replica(i, j, k), version)
	c.distinguish(i, j, 1-k)
}

// distinguish has a replica that is not loaded have no version if the other one of its location has the same: what
// an engine says of that version is said of one of them.
func (c *Controller) distinguish(i, j, k int) {
	p := &c.models[i].locations[j]
	if r := c.replica(i, j, k); r >= 0 && p.versions[k] == p.versions[1-k] {
		p.versions[k] = ""
		c.fleet.Hold(r, "")
	}
}

// answering returns at how many of the model's locations something answers.
func (c *Controller) answering(i int) (n int) {
	for j := range c.models[i].locations {
		if p := &c.models[i].locations[j]; p.phase < emptying && c.fleet.State(c.models[i].Locations[j].Replicas[p.active]) == fleet.Up {
			n++
		}
	}
	return n
}
