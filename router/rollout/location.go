package rollout

import (
	"fmt"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// step takes the change of a location as far as it can be now by one phase. It reports whether it has.
func (c *Controller) step(i, j int, now time.Duration) bool {
	p := &c.models[i].locations[j]
	if p.phase != steady && c.fleet.Lost(c.models[i].Locations[j].Host) {
		c.interrupt(i, j, now)
		return false
	}
	switch p.phase {
	case loading, unloading, clearing, reloading:
		return c.stepAction(i, j, now)
	case ready, shifting:
		return c.stepShares(i, j, now)
	case draining:
		return c.stepDraining(i, j, now)
	case emptying:
		return c.stepEmptying(i, j, now)
	}
	return false
}

// interrupt follows the loss of the host at which a location is being changed. What was loaded in addition is
// given up: whichever version comes back is found, and the roll goes on elsewhere. A location that was
// emptied gets its version once the host is back. Answers of the host's last moments count for neither version.
func (c *Controller) interrupt(i, j int, now time.Duration) {
	p := &c.models[i].locations[j]
	p.base = c.countsAt(i, j)
	if p.phase >= clearing {
		p.enter(p.phase, now)
		return
	}
	p.err = "the host of a location is lost"
	c.note(i, j, now)
	c.models[i].retry = 0 // elsewhere nothing has failed
	p.active = p.state().Active
	c.weigh(i, j, 0)
	p.change = change{}
}

// enter begins a phase.
func (p *change) enter(to phase, now time.Duration) bool {
	p.phase, p.since, p.sent, p.ended, p.err = to, now, false, false, ""
	return true
}

// replica returns the replica of an index at the location.
func (c *Controller) replica(i, j, k int) int { return c.models[i].Locations[j].Replicas[k] }

// weigh gives the next replica its part of the requests, and the active one the rest.
func (c *Controller) weigh(i, j int, share float64) {
	p := &c.models[i].locations[j]
	p.share = share
	c.fleet.Weigh(c.replica(i, j, p.active), 1-share)
	c.fleet.Weigh(c.replica(i, j, 1-p.active), share)
}

// stepAction begins the action of the phase, and follows its end.
func (c *Controller) stepAction(i, j int, now time.Duration) bool {
	p := &c.models[i].locations[j]
	on := c.replica(i, j, p.acts())
	switch {
	case p.sent && !p.ended && now-p.since > c.options.LoadTimeout:
		p.ended, p.err = true, fmt.Sprintf("no word of it for %v", c.options.LoadTimeout)
	case !p.sent && p.phase == unloading && c.fleet.State(on) == fleet.Cold:
		p.ended = true // something else has unloaded it
	case !p.sent && now >= p.since && p.phase == reloading && c.fleet.State(on) == fleet.Up:
		p.ended = true // it was never unloaded, or something else has loaded it
	case !p.sent && now >= p.since: // a phase may begin later
		p.sent = true
		if err := c.fleet.Act(control.Action{Verb: p.verb(), Replica: on}); err != nil {
			p.ended, p.err = true, err.Error()
		}
	}
	if !p.ended {
		return false
	}
	switch p.phase {
	case loading:
		return c.loaded(i, j, now)
	case unloading:
		return c.unloaded(i, j, now)
	case clearing:
		return c.cleared(i, j, now)
	}
	return c.reloaded(i, j, now)
}

// acts is the index of the replica on which the phase acts.
func (p *location) acts() int {
	switch p.phase {
	case loading:
		return 1 - p.active
	case unloading:
		return p.loser
	}
	return p.active
}

// loaded follows a load of the new version in addition to the old.
func (c *Controller) loaded(i, j int, now time.Duration) bool {
	p := &c.models[i].locations[j]
	if p.err != "" {
		c.failed(i, j, now)
		p.change = change{}
		return true
	}
	c.report(Step{At: now, Kind: StepLoaded, Model: i, Location: j, From: p.versions[p.active], To: p.to, Took: now - p.since})
	return p.enter(ready, now)
}

// stepShares moves requests to the new version.
func (c *Controller) stepShares(i, j int, now time.Duration) bool {
	m := &c.models[i]
	p := &m.locations[j]
	old, next := c.fleet.State(c.replica(i, j, p.active)), c.fleet.State(c.replica(i, j, 1-p.active))
	switch {
	case p.abort:
		return c.lose(i, j, 1-p.active, now)
	case next != fleet.Up && old == fleet.Up:
		return c.down(i, j, next, now)
	case m.paused || m.doubt > 0 || p.phase == ready && c.options.Together && !c.allReady(i):
		return false
	case p.phase == shifting && now-p.since < c.options.Warmup:
		return false
	case p.phase == shifting:
		p.step++
	}
	p.enter(shifting, now)
	if p.step >= len(c.options.Shares) {
		return c.lose(i, j, p.active, now)
	}
	c.weigh(i, j, c.options.Shares[p.step])
	c.report(Step{At: now, Kind: StepShifted, Model: i, Location: j, From: p.versions[p.active], To: p.to, Share: p.share})
	return c.options.Warmup == 0
}

// down follows a new version that does not answer any more, with the old one there: that gets all. Where what
// the new one's requests came to is in doubt, that is judged first.
func (c *Controller) down(i, j int, is fleet.State, now time.Duration) bool {
	m := &c.models[i]
	if old, next := c.compare(i); next.Failed > 0 {
		m.seen = ": " + failures(old, next)
	}
	if m.doubt == 0 {
		m.locations[j].err = fmt.Sprintf("the new version is %v%s", is, m.seen)
		c.failed(i, j, now)
	}
	return c.lose(i, j, 1-m.locations[j].active, now)
}

// allReady reports whether the new version is loaded at each location of the model that loads it.
func (c *Controller) allReady(i int) bool {
	m := &c.models[i]
	for j := range m.locations {
		p := &m.locations[j]
		if p.phase == loading || p.phase == steady && p.versions[p.active] != m.wanted && c.besides(i, j) {
			return false
		}
	}
	return true
}

// besides reports whether the location is one that gets the new version in addition to the old.
func (c *Controller) besides(i, j int) bool {
	p := &c.models[i].locations[j]
	next := c.replica(i, j, 1-p.active)
	return next >= 0 && c.fleet.State(c.replica(i, j, p.active)) == fleet.Up && (c.fleet.State(next) != fleet.Cold || c.fleet.Fits(next))
}

// lose has the replica of the index get no requests any more, and the other one all.
func (c *Controller) lose(i, j, loser int, now time.Duration) bool {
	p := &c.models[i].locations[j]
	p.loser = loser
	share := 1.0
	if loser != p.active {
		share = 0
	}
	c.weigh(i, j, share)
	c.report(Step{At: now, Kind: StepShifted, Model: i, Location: j, From: p.versions[p.active], To: p.versions[1-p.active], Share: share})
	return p.enter(draining, now)
}

// stepDraining unloads the loser once it has no requests any more. If the new version is gone by
// then, it is the loser after all.
func (c *Controller) stepDraining(i, j int, now time.Duration) bool {
	p := &c.models[i].locations[j]
	loser, other := c.replica(i, j, p.loser), c.replica(i, j, 1-p.loser)
	switch {
	case p.loser == p.active && c.fleet.State(loser) == fleet.Up && c.fleet.State(other) != fleet.Up:
		return c.down(i, j, c.fleet.State(other), now)
	case p.loser == p.active && p.abort && c.fleet.State(loser) == fleet.Up:
		return c.lose(i, j, 1-p.active, now)
	case c.fleet.InFlight(loser) > 0 && now-p.since < c.options.DrainTimeout:
		return false
	}
	return p.enter(unloading, now)
}

// unloaded follows an unload of the loser: the change is over.
func (c *Controller) unloaded(i, j int, now time.Duration) bool {
	m := &c.models[i]
	p := &m.locations[j]
	if p.err != "" {
		c.note(i, j, now)
		if p.tries++; p.tries < c.options.Tries {
			p.enter(unloading, now+c.options.RetryAfter)
			return false
		}
		// The change is over all the same. What is left is tried again later.
	}
	before, loser := p.versions[p.active], p.loser
	changed := loser == p.active
	p.active = 1 - loser
	if began := p.began; changed {
		m.counts.Changes++
		m.tries = 0
		c.report(Step{At: now, Kind: StepChanged, Model: i, Location: j, From: before, To: p.versions[p.active], Share: 1, Took: now - began})
	}
	p.change = change{}
	return true
}

// stepEmptying unloads the active replica once it has no requests any more.
func (c *Controller) stepEmptying(i, j int, now time.Duration) bool {
	p := &c.models[i].locations[j]
	active := c.replica(i, j, p.active)
	switch {
	case p.abort:
		c.fleet.Weigh(active, 1)
		p.change = change{}
		return true
	case c.fleet.InFlight(active) > 0 && now-p.since < c.options.DrainTimeout:
		return false
	}
	return p.enter(clearing, now)
}

// cleared follows an unload of the active replica, which is loaded again with the new version.
func (c *Controller) cleared(i, j int, now time.Duration) bool {
	p := &c.models[i].locations[j]
	if p.err != "" {
		c.failed(i, j, now)
		c.fleet.Weigh(c.replica(i, j, p.active), 1)
		p.change = change{}
		return true
	}
	if p.abort {
		p.to = c.models[i].wanted
	}
	if p.versions[p.active] != p.to {
		c.hold(i, j, p.active, p.to)
	}
	return p.enter(reloading, now)
}

// reloaded follows a load in the place of the old version. After a failure the version that the
// others have is loaded.
func (c *Controller) reloaded(i, j int, now time.Duration) bool {
	m := &c.models[i]
	p := &m.locations[j]
	if p.err != "" {
		c.failed(i, j, now)
		if m.back {
			p.to = m.wanted
		} else {
			p.to = m.from
		}
		c.hold(i, j, p.active, p.to)
		p.enter(reloading, now+c.options.RetryAfter)
		return false
	}
	c.fleet.Weigh(c.replica(i, j, p.active), 1)
	if p.to == m.wanted {
		m.counts.Changes++
		m.tries = 0
		c.report(Step{At: now, Kind: StepChanged, Model: i, Location: j, From: m.from, To: p.to, Share: 1, Took: now - p.began})
	}
	p.change = change{}
	return true
}

// failed notes that the new version could not be had at a location. After too many of that the model
// goes back.
func (c *Controller) failed(i, j int, now time.Duration) {
	m := &c.models[i]
	c.note(i, j, now)
	if m.tries++; m.rolling && !m.back && m.tries >= c.options.Tries {
		c.goBack(i, fmt.Sprintf("version %q cannot be had: %s", m.wanted, m.locations[j].err), now)
	}
}

// note notes that an attempt at a location has failed.
func (c *Controller) note(i, j int, now time.Duration) {
	m := &c.models[i]
	p := &m.locations[j]
	m.counts.Failures++
	m.retry, m.reason = now+c.options.RetryAfter, p.err
	c.report(Step{At: now, Kind: StepFailed, Model: i, Location: j, From: m.from, To: m.wanted, Took: now - p.began, Reason: p.err})
}
