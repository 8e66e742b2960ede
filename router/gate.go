package router

import (
	"time"

	"gearshift/router/fleet"
)

// Gate decides where a request may begin. Room reports whether an answer on the replica,
// which is available, would be worth the place now. It may use the view's forecasts. It is
// pure, allocates nothing, and is shared by goroutines.
//
// Where the gate sees no room on the chosen replica, another one is taken: of the same
// variant, else of the next smaller ones, else of larger ones; where qualities are predicted
// for the request, of the best smaller one, else of the best larger one. If there is none,
// the request does not begin, with [ErrLate].
type Gate interface {
	Room(v *fleet.View, r *fleet.Request, replica int) bool
}

// fits reports whether the replica is available, can answer the request and has room by the
// gate, if there is one.
func (d *Decision) fits(r *fleet.Request, replica int) bool {
	return d.view.Available(replica) && d.table.Serves(r, replica) && (d.policies.gate == nil || d.policies.gate.Room(&d.view, r, replica))
}

// late reports whether no replica of the view has room by the gate. A pinned variant below
// zero stands for any.
func (d *Decision) late(pinned int, r *fleet.Request) bool {
	if d.policies.gate == nil {
		return false
	}
	for _, i := range d.view.Replicas() {
		if (pinned < 0 || d.table.Replicas[i].Variant == pinned) && d.fits(r, i) {
			return false
		}
	}
	return true
}

// admit replaces a replica on which the gate sees no room by one on which it does. There is
// one, or look would have failed with ErrLate.
func (d *Decision) admit(choice *Choice, pinned int, r *fleet.Request) {
	if d.policies.gate == nil || d.fits(r, choice.Replica) {
		return
	}
	replica := d.roomy(choice.Variant, pinned, r)
	if replica < 0 {
		return
	}
	choice.Replica = replica
	variant := d.table.Replicas[replica].Variant
	if variant == choice.Variant { // as decided
		return
	}
	choice.Variant, choice.Policy, choice.Fallback = variant, Degraded, true
	if choice.Reason == "" {
		choice.Reason = ReasonLate
	}
	if choice.Propensity < 1 { // the other choice might have led here too
		choice.Propensity = 0
	}
}

// roomy returns a replica with room by the gate: of the variant, else of the nearest one
// that has room. If a variant is pinned, only its replicas count. It returns −1 if there is
// none.
func (d *Decision) roomy(variant, pinned int, r *fleet.Request) int {
	if pinned >= 0 {
		return d.roomiest(pinned, r)
	}
	if replica := d.roomiest(variant, r); replica >= 0 {
		return replica
	}
	if variant = d.nearest(variant, r); variant >= 0 {
		return d.roomiest(variant, r)
	}
	return -1
}

// roomiest returns, of the variant's replicas with room by the gate, the one with the
// fewest requests in flight, or −1.
func (d *Decision) roomiest(variant int, r *fleet.Request) int {
	best := -1
	for _, i := range d.view.ReplicasOf(variant) {
		if (best < 0 || d.view.InFlight[i] < d.view.InFlight[best]) && d.fits(r, i) {
			best = i
		}
	}
	return best
}

// Spare takes a place on the variant for a request of the router's own, on the replica with the
// fewest requests in flight. It reports false where all places are taken or the gate sees no room.
// No policy is asked, and the request counts neither among the arrivals nor among the recent ones.
func (c *Core) Spare(variant int, r *fleet.Request, now time.Duration) (lease fleet.Lease, replica int, ok bool) {
	if variant < 0 || c.known(variant, r) != nil {
		return lease, -1, false
	}
	d := c.decisions.Get().(*Decision)
	defer c.decisions.Put(d)
	d.policies = c.policies.Load()
	d.view.Whole()
	if d.look(variant, r, now) != nil {
		return lease, -1, false
	}
	if replica = d.roomiest(variant, r); replica >= 0 {
		lease, ok = c.ledger.BeginAgain(&d.view, fleet.Lease{}, replica, r.Task)
	}
	return lease, replica, ok
}
