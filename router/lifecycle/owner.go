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

// Claim returns the claims of a rank. Observe is called with the ends of its wants, within Wake and the
// methods of claims: as [control.Controller.Observe] it must not act.
func (c *Controller) Claim(rank Rank, observe func(control.Event)) *Claims {
	n := len(c.replicas)
	k := &Claims{c: c, rank: rank, observe: observe, held: make([]bool, n), next: make([]bool, n), changes: make([]bool, n), there: make([]bool, n)}
	c.claims = append(c.claims, k)
	return k
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

// Act implements [control.Actuator] by a want of the state to which the verb leads.
func (k *Claims) Act(a control.Action) error {
	if a.Verb != control.Load && a.Verb != control.Unload {
		return nil
	}
	_, err := k.Propose(Want{a.Replica, a.Verb.State()})
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
		if taken += c.willHold(i); own {
			taken -= max(c.willHold(i), c.secondHolds(i))
		}
	}
	return max(0, taken)
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

// conflict is why the want cannot be taken in: a higher rank has the location.
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
	is := func(i int) bool { return c.replicas[i].phase == settled && c.ledger.Placed(i) == o.State }
	if o.State == fleet.Up {
		return slices.ContainsFunc(c.at(o), is)
	}
	return !slices.ContainsFunc(c.at(o), func(i int) bool { return !is(i) })
}

// subject is the replica on which the want acts next.
func (c *Controller) subject(o *open) int {
	list := c.at(o)
	for _, i := range list {
		if r := &c.replicas[i]; r.phase != settled || o.State != fleet.Up && c.ledger.Placed(i) != o.State {
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
	c.order(i, o.State, Order{}, o.claims.rank)
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

// secondHolds is what the second replica of the location will take.
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
