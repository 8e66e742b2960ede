package router

import "gearshift/router/fleet"

// Gate says where a request may be begun: whether an answer on the replica, which
// is available, would be worth the place, now. It goes by forecasts if the Core has
// a forecaster. It is pure, allocates nothing, and is shared by goroutines.
//
// Where the chosen replica has no room by the gate, one that has takes its place:
// of the same variant, else of the next smaller ones, else of larger ones. If none
// has, the request is not begun, with [ErrLate].
type Gate interface {
	Room(v *fleet.View, r *fleet.Request, replica int) bool
}

// fits is the gate's word on a replica, of which it is not asked if that is not
// available, or cannot answer the request.
func (d *Decision) fits(r *fleet.Request, replica int) bool {
	return d.view.Available(replica) && d.table.Serves(r, replica) && d.lineup.gate.Room(&d.view, r, replica)
}

// late says that no replica of the view has room by the gate. A pinned variant
// below zero stands for any.
func (d *Decision) late(pinned int, r *fleet.Request) bool {
	if d.lineup.gate == nil {
		return false
	}
	for _, i := range d.view.Replicas() {
		if (pinned < 0 || d.table.Replicas[i].Variant == pinned) && d.fits(r, i) {
			return false
		}
	}
	return true
}

// admit puts a replica with room by the gate in the place of one without. There is
// one, or the view would have been late.
func (d *Decision) admit(choice *Choice, pinned int, r *fleet.Request) {
	if d.lineup.gate == nil || d.fits(r, choice.Replica) {
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

// roomy is a replica with room by the gate: of the variant, else of the nearest
// smaller one, else of the nearest larger one. It is −1 if none has, or none of
// the pinned variant if there is one.
func (d *Decision) roomy(variant, pinned int, r *fleet.Request) int {
	if pinned >= 0 {
		return d.roomiest(pinned, r)
	}
	for v := variant; v >= 0; v-- {
		if replica := d.roomiest(v, r); replica >= 0 {
			return replica
		}
	}
	for v := variant + 1; v < len(d.table.Variants); v++ {
		if replica := d.roomiest(v, r); replica >= 0 {
			return replica
		}
	}
	return -1
}

// roomiest is, of the variant's replicas with room by the gate, the one with the
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
