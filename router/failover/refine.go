package failover

import (
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/placement"
)

// refining is a search for better backups, a slice at each wake while nothing else happens: of one backup of each
// application at a time, with those that it may have besides left as they are.
type refining struct {
	version int // of the controller, to which the search belongs
	backup  int // which of each application's is searched for
	due     time.Duration
	problem *placement.Problem
	use     []int // hosts of the problem
	asks    []ask
	from    []*assignment // present backups of the asks; nil where there is none
	search  *placement.Search
}

// Slices of a search are so long apart. Backups are moved for a gain of so much of what they are worth, or where more
// have one.
const (
	sliceEvery  = 100 * time.Millisecond
	worthMoving = 0.005
)

// refine begins a search if plans depend on something that has changed since the last one, once all that is wanted is
// there and nothing else is.
func (c *Controller) refine() {
	if c.refining.version == c.version {
		return
	}
	if c.refining.due = control.Never; c.calm() {
		c.refining = refining{version: c.version, due: c.now + sliceEvery}
	}
}

// calm reports whether all hosts are used, every application is where it belongs, and nothing is to be loaded or
// unloaded.
func (c *Controller) calm() bool {
	if c.impaired() || slices.ContainsFunc(c.apps, func(a application) bool { return a.down || a.target != nil }) {
		return false
	}
	for _, list := range c.on {
		for _, x := range list {
			if x.phase != loaded || !c.committed(x) {
				return false
			}
		}
	}
	return true
}

// slice goes on with the search.
func (c *Controller) slice() {
	r := &c.refining
	r.due = c.now + sliceEvery
	if r.search == nil {
		c.prepareSearch()
		return
	}
	if r.search.Slice() {
		return
	}
	if !c.moveBackups() {
		r.backup, r.search = r.backup+1, nil
	}
	if c.dirty || r.backup >= c.options.Backups {
		r.due, r.search = control.Never, nil
	}
}

// prepareSearch begins a search.
func (c *Controller) prepareSearch() {
	r := &c.refining
	r.asks, r.from = nil, nil
	moving := map[*assignment]bool{}
	for i := range c.apps {
		a := &c.apps[i]
		if a.active == nil || !c.protects(i) || len(a.backups) < r.backup {
			continue
		}
		q := c.backupAsk(i, a.sorted)
		var x *assignment
		if len(a.backups) > r.backup {
			x = a.backups[r.backup]
			moving[x] = true
			q.excluded = slices.DeleteFunc(q.excluded, func(s int) bool { return c.together(s, x.Host) })
		}
		r.asks, r.from = append(r.asks, q), append(r.from, x)
	}
	kept := func(x *assignment) bool { return c.committed(x) && !moving[x] }
	rooms := c.rooms(kept)
	r.problem, r.use = c.pose(r.asks, rooms, c.alpha(rooms), kept)
	r.search = r.problem.Search(r.problem.AtOnce())
}

// moveBackups begins the moves to the plan that was found if they are worth it, and reports whether it did. Each backup stays
// until the one that replaces it is there, so those for which there is no room yet follow after the others.
func (c *Controller) moveBackups() bool {
	r := &c.refining
	from := make([]placement.Choice, len(r.asks))
	for k, x := range r.from {
		from[k] = placement.Choice{Variant: -1, Bin: -1}
		if x != nil {
			from[k] = placement.Choice{Variant: slices.Index(r.asks[k].variants, x.Variant), Bin: slices.Index(r.use, x.Host)}
		}
	}
	now := r.problem.Of(from)
	first, reached := r.problem.Moves(from, r.search.Plan().Choices)
	if reached.Placed == now.Placed && reached.Objective < now.Objective*(1+worthMoving) {
		return false
	}
	for _, k := range first {
		i, s := r.asks[k].app, r.search.Plan().Choices[k]
		at := choice{variant: r.asks[k].variants[s.Variant], host: r.use[s.Bin]}
		if x := r.from[k]; x != nil {
			c.apps[i].backups[r.backup] = c.want(i, at.variant, at.host)
		} else {
			c.backUp(i, at)
		}
	}
	c.dirty = true
	return true
}
