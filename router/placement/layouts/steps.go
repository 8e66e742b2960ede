package layouts

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// up lists the replicas of a host that layouts decide and that are up, in table order.
func (c *Controller) up(h int) (list []int) {
	for _, r := range c.table.ReplicasOn(h) {
		if c.decided(r) && c.claims.Up(r) {
			list = append(list, r)
		}
	}
	return list
}

// decided reports whether the host's layout decides on the replica.
func (c *Controller) decided(r int) bool {
	return (c.options.Decided == nil || c.options.Decided(r)) && c.claims.First(r) == r
}

// barred says why no change of the host may begin now; empty if one may.
func (c *Controller) barred(h int, now time.Duration) string {
	x := &c.hosts[h]
	switch stays := x.since + c.options.Stay; {
	case len(x.layouts) < 2:
		return "it has one layout"
	case x.moving:
		return "it is on its way to another"
	case x.target < 0:
		return "what is up there is none of its layouts"
	case x.chosen && now < stays:
		return fmt.Sprintf("it stays as it is for %v", (stays - now).Round(time.Second))
	case now < x.blocked:
		return fmt.Sprintf("%s; no change is tried for %v", x.why, (x.blocked - now).Round(time.Second))
	case c.options.PerMinute > 0 && len(c.begun) >= c.options.PerMinute:
		return fmt.Sprintf("%d changes have begun within a minute", len(c.begun))
	case len(c.options.Hours) > 0 && !slices.ContainsFunc(c.options.Hours, func(o Hours) bool { return o.contain((now + c.options.Midnight) % (24 * time.Hour)) }):
		return "it is not the time of the day for changes"
	}
	return ""
}

// barredFrom says why the host cannot be brought into the layout.
func (c *Controller) barredFrom(h, layout int) string {
	x := &c.hosts[h]
	from, to := x.layouts[x.target].Up, x.layouts[layout].Up
	for _, r := range c.table.ReplicasOn(h) {
		if slices.Contains(from, r) == slices.Contains(to, r) {
			continue
		}
		switch name := c.table.Replicas[r].Name; {
		case c.ledger.State(r) == fleet.Down:
			return name + " is down"
		case !c.engines.Driven(r):
			return "no engine loads " + name
		case c.claims.Taken(r):
			return name + " is held for something else"
		case c.claims.Rolling(r):
			return "the version of " + name + " is being changed"
		case !c.claims.Idle(r) && !c.claims.Up(r):
			return name + " is on its way already"
		}
	}
	if t := c.uncovered(h, to); t >= 0 {
		return fmt.Sprintf("nothing would answer %s meanwhile", c.table.Tasks[t].Name)
	}
	return ""
}

// uncovered returns a task that nothing would answer while the host gets to the layout; −1 if there is none.
func (c *Controller) uncovered(h int, to []int) int {
	for t := range c.table.Tasks {
		answered, stays := false, false
		for r := range c.table.Replicas {
			i, first := &c.table.Replicas[r], c.claims.First(r)
			if !c.table.Answers(t, i.Variant) || c.ledger.State(r) != fleet.Up {
				continue
			}
			answered = true
			x := &c.hosts[i.Host]
			stays = stays || !c.decided(first) || i.Host == h && (slices.Contains(to, first) || c.handsOver(h, first, to)) ||
				i.Host != h && (!x.moving || slices.Contains(x.layouts[x.target].Up, first))
		}
		if answered && !stays {
			return t
		}
	}
	return -1
}

// handsOver reports whether a replica of the same variant fits before the replica is stopped, in addition to all
// that are up and whose variants stay.
func (c *Controller) handsOver(h, r int, to []int) bool {
	of := func(i int) int { return c.table.Replicas[i].Variant }
	next := slices.IndexFunc(to, func(s int) bool { return of(s) == of(r) })
	if next < 0 || c.table.Hosts[h].Memory == 0 {
		return next >= 0
	}
	together := c.table.MemoryOf(to[next]) + c.claims.Reserved(h)
	for _, i := range c.up(h) {
		if slices.ContainsFunc(to, func(s int) bool { return of(s) == of(i) }) {
			together += c.table.MemoryOf(i)
		}
	}
	return together <= c.table.Hosts[h].Memory
}

// advance takes the next step of a host's change. It starts first what fits, so that something answers while other
// replicas are put to sleep to make room for the rest.
func (c *Controller) advance(h int, now time.Duration) {
	x := &c.hosts[h]
	if !x.moving || len(x.wants) > 0 || now < x.retry || c.waits(h) {
		return
	}
	target, up := x.layouts[x.target].Up, c.up(h)
	starts := slices.DeleteFunc(slices.Clone(target), func(r int) bool { return slices.Contains(up, r) })
	stops := slices.DeleteFunc(slices.Clone(up), func(r int) bool { return slices.Contains(target, r) })
	if slices.ContainsFunc(stops, c.claims.Taken) {
		x.moving = x.former >= 0
		x.target, x.former, x.reason = x.former, -1, "it went back: a higher rank holds what was to be put to sleep"
		return
	}
	for _, r := range starts {
		if c.claims.Fits(r) {
			c.want(h, []int{r}, nil, now)
		}
	}
	switch {
	case len(x.wants) > 0 || now < x.retry:
	case len(starts) > 0:
		c.exchange(h, starts, stops, now)
	case len(stops) > 0:
		c.want(h, nil, stops, now)
	default:
		if x.moving = false; x.former >= 0 {
			x.setbacks, x.why = 0, ""
		}
	}
}

// waits reports whether the next step of a host's change waits: the host is lost, or something else acts on a replica,
// such as a change of version.
func (c *Controller) waits(h int) bool {
	return c.lost(h) || slices.ContainsFunc(c.table.ReplicasOn(h), func(r int) bool {
		return c.decided(r) && (c.claims.Rolling(r) || !c.claims.Up(r) && !c.claims.Idle(r))
	})
}

// lost reports whether no replica of the host can be reached.
func (c *Controller) lost(h int) bool {
	return !slices.ContainsFunc(c.table.ReplicasOn(h), func(r int) bool { return c.ledger.State(r) != fleet.Down })
}

// exchange stops replicas and starts others in their memory: first those whose variant is not in the layout, or up
// there already, if that is enough for one.
func (c *Controller) exchange(h int, starts, stops []int, now time.Duration) {
	free := c.free(h)
	var spare []int
	for _, r := range stops {
		if v := c.table.Replicas[r].Variant; !slices.ContainsFunc(starts, func(s int) bool { return c.table.Replicas[s].Variant == v }) {
			spare = append(spare, r)
			free += c.table.MemoryOf(r)
		}
	}
	for _, r := range starts {
		if len(spare) > 0 && c.table.MemoryOf(r) <= free {
			c.want(h, []int{r}, spare, now)
			return
		}
	}
	c.want(h, starts, stops, now)
}

// free returns the memory of the host that no replica takes.
func (c *Controller) free(h int) int64 {
	free := c.table.Hosts[h].Memory - c.claims.Reserved(h)
	for _, r := range c.table.ReplicasOn(h) {
		if placed := c.ledger.Placed(r); placed != fleet.Cold && placed != fleet.Warm {
			free -= c.table.MemoryOf(r)
		}
	}
	return free
}

// want proposes replicas to start and to stop, all or none.
func (c *Controller) want(h int, starts, stops []int, now time.Duration) {
	x := &c.hosts[h]
	var wants []lifecycle.Want
	for _, r := range stops {
		state := fleet.Cold
		if c.options.Rest != nil {
			state = c.options.Rest(r)
		}
		wants = append(wants, lifecycle.Want{Replica: r, State: state, Drain: c.options.Drain})
	}
	for _, r := range starts {
		wants = append(wants, lifecycle.Want{Replica: r, State: fleet.Up})
	}
	for _, w := range wants {
		x.wants[w.Replica] = w.State
	}
	_, err := c.claims.Propose(wants...)
	if err != nil {
		clear(x.wants)
		c.fails(h, err.Error(), now)
	}
	for _, w := range wants {
		c.engines.Ordered(c.action(w.Replica, w.State), err)
	}
}

// action returns the action that brings a replica into the state, for the log.
func (c *Controller) action(r int, to fleet.State) control.Action {
	return control.Action{Verb: control.Towards(c.ledger.Placed(r), to), Replica: r}
}

// ended follows the end of what is wanted.
func (c *Controller) ended(e control.Event) {
	h := c.table.Replicas[e.Replica].Host
	x := &c.hosts[h]
	state, ours := x.wants[e.Replica]
	delete(x.wants, e.Replica)
	switch {
	case !ours:
	case e.Kind == control.ActionFailed || e.Kind == control.Evicted:
		c.engines.Ordered(c.action(e.Replica, state), errors.New(e.Reason))
		switch {
		case e.Kind == control.Evicted: // for a higher rank, which may be done soon
			x.retry, x.why = e.At+Period, e.Reason
		case !c.lost(h): // else the change goes on once the host is back
			c.fails(h, e.Reason, e.At)
		}
	case state == fleet.Up:
		c.resting[e.Replica] = Resting{}
	default:
		c.resting[e.Replica] = Resting{Since: e.At, Reason: x.reason}
	}
}

const (
	// firstRetry passes after a failure before another try; twice as long after each further one, up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, 10 * time.Minute
	// firstSetback passes after a host went back before another change of it begins; twice as long each further
	// time, up to lastRetry.
	firstSetback = time.Minute
	// tries bounds the failures of a change before the host goes back to the layout before.
	tries = 3
)

// fails makes the host wait after a failure, and go back after several.
func (c *Controller) fails(h int, why string, now time.Duration) {
	x := &c.hosts[h]
	c.failed++
	x.failures++
	x.retry, x.why = now+min(lastRetry, firstRetry<<min(x.failures-1, 10)), why
	if x.failures >= tries && x.former >= 0 {
		x.blocked = now + min(lastRetry, firstSetback<<min(x.setbacks, 10))
		x.setbacks++
		x.target, x.former, x.reason = x.former, -1, "it went back: "+why
	}
}
