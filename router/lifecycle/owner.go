package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// This file arbitrates between controllers that want states of replicas. Orders of operators come by
// [Controller.Want], those of controllers by [Claims].

// open is a want that is not over.
type open struct {
	Want   // lowered to what the engine can do
	id     uint64
	claims *Claims
	asked  fleet.State
	on     int // the replica that an order was given for; −1 without one
}

// location is a replica, or two that take turns. It has the index of the first.
type location struct {
	second int // −1: it has one replica
	turn   int // the replica that is loaded next
}

func (c *Controller) nudge() {
	if c.options.Nudge != nil {
		c.options.Nudge()
	}
}

// exact reports whether the want is of the one replica, whatever its location.
func (o *open) exact() bool { return o.claims.rank == Versions }

// at lists the replicas that the want is of.
func (c *Controller) at(o *open) []int {
	l := c.first[o.Replica]
	if second := c.locations[l].second; second >= 0 && !o.exact() {
		return []int{l, second}
	}
	return []int{o.Replica}
}

// sameAs reports whether both wants are of one replica.
func (c *Controller) sameAs(o, p *open) bool {
	if o.exact() && p.exact() {
		return o.Replica == p.Replica
	}
	return c.first[o.Replica] == c.first[p.Replica]
}

// conflict says why the want cannot be taken in: a higher rank has the location.
func (c *Controller) conflict(o *open) error {
	l, name := c.first[o.Replica], c.table.Replicas[o.Replica].Name
	if o.claims.changes[l] {
		return nil // others wait
	}
	for _, k := range c.claims {
		if k.rank < o.claims.rank && k.held[l] && !o.exact() && (o.State != fleet.Up || k.changes[l]) {
			return fmt.Errorf("%s is held by %v", name, k.rank)
		}
	}
	for _, p := range c.open {
		if p.claims.rank < o.claims.rank && c.sameAs(o, p) && (p.State != o.State || o.exact()) {
			return fmt.Errorf("%s is wanted %v by %v", name, p.State, p.claims.rank)
		}
	}
	return nil
}

// evict ends what another state is wanted by of lower ranks, and earlier by the same one.
func (c *Controller) evict(o *open) {
	c.drop(func(p *open) bool {
		return p.id != o.id && p.claims.rank >= o.claims.rank && p.State != o.State && c.sameAs(o, p) &&
			(o.claims.rank == p.claims.rank || p.claims.rank != Versions)
	}, o.claims.rank)
}

// drop ends open wants that a rank has evicted.
func (c *Controller) drop(which func(*open) bool, by Rank) {
	for _, o := range c.open {
		if which(o) {
			c.ends = append(c.ends, end{o, control.Event{Kind: control.Evicted, Reason: "it was given up for " + by.String()}})
		}
	}
	c.open = slices.DeleteFunc(c.open, which)
}

// end is the event of a want that is over.
type end struct {
	of    *open
	event control.Event
}

// met reports whether the want has what it is for.
func (c *Controller) met(o *open) bool {
	if o.State == fleet.Up {
		return slices.ContainsFunc(c.at(o), func(i int) bool { return c.leaves(o, i) })
	}
	return !slices.ContainsFunc(c.at(o), func(i int) bool { return !c.leaves(o, i) })
}

// leaves reports whether the want leaves the replica as it is. What is cold is not loaded to sleep if the other
// replica of its location is loaded, or sleeps.
func (c *Controller) leaves(o *open, i int) bool {
	placed := c.ledger.Placed(i)
	return c.replicas[i].phase == settled && (placed == o.State || placed == fleet.Cold && o.State == fleet.Warm &&
		slices.ContainsFunc(c.at(o), func(j int) bool { return c.ledger.Placed(j) != fleet.Cold }))
}

// subject is the replica on which the want acts next.
func (c *Controller) subject(o *open) int {
	list := c.at(o)
	for _, i := range list {
		if c.replicas[i].phase != settled || o.State != fleet.Up && c.ledger.Placed(i) != fleet.Cold && !c.leaves(o, i) {
			return i
		}
	}
	if len(list) > 1 {
		return c.locations[list[0]].turn
	}
	return list[0]
}

// arbitrate gives orders for wants, those of higher ranks first and those that give memory back before
// those that take it, and ends those that are over. It reports whether it has given any.
func (c *Controller) arbitrate(now time.Duration) (given bool) {
	slices.SortStableFunc(c.open, func(o, p *open) int {
		if o.claims.rank != p.claims.rank {
			return int(o.claims.rank) - int(p.claims.rank)
		}
		return takesMore[o.State] - takesMore[p.State]
	})
	for _, o := range slices.Clone(c.open) {
		over, err, begun := c.pursue(o)
		given = given || begun
		if over {
			e := control.Event{Kind: doneAs[o.asked]}
			if err != nil {
				e.Kind, e.Reason = control.ActionFailed, err.Error()
			} else if l := c.first[o.Replica]; o.State == fleet.Up {
				o.claims.there[l] = o.claims.held[l]
			}
			c.ends = append(c.ends, end{o, e})
			c.open = slices.DeleteFunc(c.open, func(p *open) bool { return p == o })
		}
	}
	for _, x := range c.ends {
		e, o := x.event, x.of
		e.At, e.Want, e.Replica, e.Host = now, o.id, o.Replica, c.table.Replicas[o.Replica].Host
		o.claims.observe(e)
	}
	if len(c.ends) > 0 { // their owners may want something else now
		c.ends = c.ends[:0]
		c.nudge()
	}
	return given
}

var (
	takesMore = map[fleet.State]int{fleet.Cold: 0, fleet.Warm: 1, fleet.Up: 2}
	doneAs    = map[fleet.State]control.Kind{fleet.Cold: control.Unloaded, fleet.Warm: control.Slept, fleet.Up: control.Loaded}
)

// pursue brings a want on.
func (c *Controller) pursue(o *open) (over bool, err error, given bool) {
	if c.met(o) {
		return true, nil, false
	}
	i := c.subject(o)
	switch r, placed := &c.replicas[i], c.ledger.Placed(i); {
	case !o.exact() && c.Rolling(o.Replica):
		return false, nil, false
	case r.phase != settled && r.target == o.State: // perhaps by another's order
		o.on = i
		return false, nil, false
	case r.phase == acting || r.loaded || placed == fleet.Loading || placed == fleet.Draining:
		return false, nil, false // that has to end first
	case o.on == i:
		if err = r.failed; err == nil {
			err = fmt.Errorf("it is %v", placed)
		}
		return true, err, false
	}
	if o.State == fleet.Up {
		err = c.unloadable(i, o.claims.rank)
	}
	if err == nil {
		err = c.refuse(i, o.State)
	}
	if err != nil {
		return true, err, false
	}
	o.on = i
	c.order(i, o.State, Order{DrainTimeout: o.Drain}, o.claims.rank)
	return false, nil, true
}

// watch reports to those who hold a location that it is not loaded any more.
func (c *Controller) watch(now time.Duration) {
	for _, k := range c.claims {
		for l, held := range k.held {
			if !held || c.Rolling(l) {
				continue
			}
			up, busy := c.standing(l)
			switch {
			case up:
				k.there[l] = true
			case busy || !k.there[l] || slices.ContainsFunc(c.open, func(o *open) bool { return o.claims == k && c.first[o.Replica] == l }):
			default:
				k.there[l] = false
				k.observe(control.Event{At: now, Kind: control.Unloaded, Replica: l, Host: c.table.Replicas[l].Host, Reason: c.ledger.Placed(l).String()})
			}
		}
	}
}

// standing reports whether a replica of the location is up, and whether one is on its way somewhere.
func (c *Controller) standing(l int) (up, busy bool) {
	for _, i := range []int{l, c.locations[l].second} {
		if i < 0 {
			continue
		}
		placed := c.ledger.Placed(i)
		up = up || placed == fleet.Up
		busy = busy || c.replicas[i].phase != settled || placed == fleet.Loading || placed == fleet.Draining
	}
	return up, busy
}

// reserved is the memory of the host that is kept for what is not loaded: by holds of higher ranks and
// changes of version, and by open wants of equal and higher ranks. The location of one replica counts nothing.
func (c *Controller) reserved(host, without int, rank Rank) (sum int64) {
	if len(c.claims) == 0 {
		return 0
	}
	for _, i := range c.table.ReplicasOn(host) {
		if c.first[i] != i || without >= 0 && c.first[without] == i || !c.kept(i, rank) {
			continue
		}
		sum += max(0, c.table.MemoryOf(i)-c.willHold(i)-c.secondHolds(i))
	}
	return sum
}

// kept reports whether memory is kept for the location.
func (c *Controller) kept(l int, rank Rank) bool {
	return slices.ContainsFunc(c.claims, func(k *Claims) bool { return k.rank < rank && k.held[l] || k.rank != rank && k.changes[l] }) ||
		slices.ContainsFunc(c.open, func(o *open) bool {
			return o.claims.rank <= rank && o.State == fleet.Up && c.first[o.Replica] == l
		})
}

// secondHolds returns what the second replica of the location will take.
func (c *Controller) secondHolds(l int) int64 {
	if second := c.locations[l].second; second >= 0 {
		return c.willHold(second)
	}
	return 0
}

// leaving is the state that the replica will be in by what is wanted to give memory back.
func (c *Controller) leaving(i int) fleet.State {
	for _, o := range c.open {
		if o.State != fleet.Up && slices.Contains(c.at(o), i) && !c.Rolling(i) {
			return o.State
		}
	}
	return c.ledger.Placed(i)
}
