package lifecycle

import (
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// This file has what controllers claim: states that they want, and replicas that they hold.

// Rank orders controllers: what a lower one wants comes first.
type Rank uint8

// The ranks.
const (
	Operator Rank = iota
	Failover
	Versions
	Balancing
	Counts  // how many replicas a model has
	Learned // a learned placement
)

var rankNames = [...]string{"an operator", "failover", "a change of version", "rebalancing", "the number of replicas", "the placement"}

// String returns who has the rank.
func (r Rank) String() string { return rankNames[r] }

// Want is a state that a replica is to be brought into: Up, Warm or Cold. A want of another rank than
// [Versions] is of the replica's location: it is met by either of two replicas that take turns there.
type Want struct {
	Replica int
	State   fleet.State
	// Drain, if not zero, is how long the replica's requests may take to end; see [Order.DrainTimeout].
	Drain time.Duration
}

// Claims are what the controllers of a rank want, and what they hold.
//
// A want is over once it is met, has failed, or is evicted by a higher rank, which an event reports to
// its owner. A hold lasts: what is loaded at a location that is held is left alone by lower ranks, memory
// is kept for what is not loaded, and its owner hears of it when it is unloaded all the same. A location
// whose version is being changed is left alone by all others but operators until that has ended.
type Claims struct {
	c        *Controller
	rank     Rank
	observe  func(control.Event)
	held     []bool // by location
	next     []bool // of Hold, to be reused
	changes  []bool // by location: its version is being changed
	there    []bool // by location: it is held, and was up
	changing int
}

// Claim returns the claims of a rank. Observe is called with the ends of its wants, within Wake and the
// methods of claims: as [control.Controller.Observe] it must not act.
func (c *Controller) Claim(rank Rank, observe func(control.Event)) *Claims {
	n := len(c.replicas)
	k := &Claims{c: c, rank: rank, observe: observe, held: make([]bool, n), next: make([]bool, n), changes: make([]bool, n), there: make([]bool, n)}
	c.claims = append(c.claims, k)
	return k
}

// Release ends all claims of a controller that restarts or no longer acts. No event reports it.
func (k *Claims) Release() {
	k.observe = func(control.Event) {}
	k.c.drop(func(o *open) bool { return o.claims == k }, k.rank)
	k.Hold(nil, nil)
	k.c.claims = slices.DeleteFunc(k.c.claims, func(other *Claims) bool { return other == k })
	k.c.nudge()
}

// Engines is what controllers ask of engines beside the states of replicas.
type Engines interface {
	// Driven reports whether anything loads and unloads the replica.
	Driven(replica int) bool
	// Ordered follows what is wanted of a replica, and why it has failed if it has.
	Ordered(a control.Action, err error)
}

// TakeTurns makes the two replicas one location. The first is loaded next.
func (k *Claims) TakeTurns(first, second int) {
	k.c.locations[first].second = second
	k.c.first[second] = first
}

// Turn has the replica be the one of its location that is loaded next.
func (k *Claims) Turn(replica int) { k.c.locations[k.c.first[replica]].turn = replica }

// Propose wants states of replicas: all, or none with an error. It returns at once; Wake does the work.
// The events of their ends carry the number. Wants of the same rank for another state of a replica are
// evicted by it, as are those of lower ranks.
func (k *Claims) Propose(wants ...Want) (id uint64, err error) {
	c := k.c
	before := len(c.open)
	c.ids++
	for _, w := range wants {
		o := &open{Want: w, id: c.ids, claims: k, asked: w.State, on: -1}
		if w.State == fleet.Cold && c.options.Lowest != nil {
			o.State = c.options.Lowest(w.Replica)
		}
		if err = c.conflict(o); err != nil {
			break
		}
		c.open = append(c.open, o)
	}
	for _, o := range c.open[before:] {
		if i := c.subject(o); err == nil && o.State == fleet.Up && !c.met(o) && c.replicas[i].phase == settled {
			err = c.unloadable(i, k.rank)
		}
	}
	if err != nil {
		c.open = c.open[:before]
		return 0, err
	}
	for _, o := range c.open[before:] {
		c.evict(o)
	}
	c.nudge()
	return c.ids, nil
}

// Wanted reports whether a state of the replica's location is wanted by the rank, and the want is not over.
func (k *Claims) Wanted(replica int) bool {
	return slices.ContainsFunc(k.c.open, func(o *open) bool { return o.claims == k && k.c.first[o.Replica] == k.c.first[replica] })
}

// Act implements [control.Actuator] by a want of the state to which the verb leads.
func (k *Claims) Act(a control.Action) error {
	if a.Verb != control.Load && a.Verb != control.Unload {
		return nil
	}
	_, err := k.Propose(Want{Replica: a.Replica, State: a.Verb.State()})
	return err
}

// Hold sets the locations that are held, by replicas, and those of which versions are being changed, which
// are held too.
func (k *Claims) Hold(replicas, changing []int) {
	held, freed := k.next, len(changing) < k.changing
	clear(held)
	clear(k.changes)
	for _, i := range replicas {
		held[k.c.first[i]] = true
	}
	for _, i := range changing {
		held[k.c.first[i]], k.changes[k.c.first[i]] = true, true
	}
	k.changing = len(changing)
	for l := range held {
		k.there[l] = k.there[l] && held[l]
		freed = freed || k.held[l] && !held[l]
	}
	if k.held, k.next = held, k.held; freed && len(k.c.open) > 0 {
		k.c.nudge()
	}
}

// Next is the replica of the replica's location that is loaded next.
func (k *Claims) Next(replica int) int { return k.c.locations[k.c.first[replica]].turn }

// Up reports whether something is up at the replica's location, and nothing is done about it.
func (k *Claims) Up(replica int) bool {
	up, busy := k.c.standing(k.c.first[replica])
	return up && !busy
}

// Status is that of the replica.
func (k *Claims) Status(replica int) Status { return k.c.Status(replica) }

// OnlySleeps reports whether the least that the replica's engine can do is to sleep, since it cannot unload.
func (k *Claims) OnlySleeps(replica int) bool {
	return k.c.options.Lowest != nil && k.c.options.Lowest(replica) == fleet.Warm
}

// Together lists the others that the replica's engine puts to sleep and wakes with it.
func (k *Claims) Together(replica int) []int { return k.c.others(replica) }

// Rolling reports whether the version of the replica's location is being changed.
func (k *Claims) Rolling(replica int) bool { return k.c.Rolling(replica) }

// Idle reports whether nothing is up at the replica's location, nor on its way somewhere.
func (k *Claims) Idle(replica int) bool {
	up, busy := k.c.standing(k.c.first[replica])
	return !up && !busy
}

// First is the first replica of the replica's location.
func (k *Claims) First(replica int) int { return k.c.first[replica] }

// Taken reports whether a higher rank holds the replica's location.
func (k *Claims) Taken(replica int) bool {
	return slices.ContainsFunc(k.c.claims, func(other *Claims) bool { return other.rank < k.rank && other.held[k.c.first[replica]] })
}

// Rolling reports whether the version of the replica's location is being changed.
func (c *Controller) Rolling(replica int) bool {
	return slices.ContainsFunc(c.claims, func(k *Claims) bool { return k.changes[c.first[replica]] })
}

// Fits reports whether there is memory for the replica now, and will be once all that is under way has
// ended, besides what equal and higher ranks hold.
func (k *Claims) Fits(i int) bool { return k.c.fits(i) && k.c.lack(i, k.rank) == nil }

// Reserved is the memory of the host that is kept from the rank for what is not loaded.
func (k *Claims) Reserved(host int) int64 { return k.c.reserved(host, -1, k.rank) }

// Others is the memory that is taken on the host, or will be, by what the claims do not hold.
func (k *Claims) Others(host int) (taken int64) {
	c := k.c
	for _, i := range c.table.ReplicasOn(host) {
		own := c.first[i] == i && k.held[i]
		if own && c.locations[i].second < 0 {
			continue
		}
		if taken += c.willHold(i); own {
			taken -= max(c.willHold(i), c.secondHolds(i))
		}
	}
	return max(0, taken)
}
