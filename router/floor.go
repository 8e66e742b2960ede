package router

import "gearshift/router/fleet"

// raise replaces a variant that may not answer the request, cannot hold its prompt or is
// below its quality floor. There is another one, or look would have failed. Since that is
// not the policy's own choice, its propensity is 0.
func (d *Decision) raise(choice *Choice, r *fleet.Request) {
	if d.table.Reaches(r, choice.Variant) {
		return
	}
	by, reason := Raised, ReasonFloor
	switch {
	case r.Variants != 0:
		by, reason = Limited, ReasonLimited
		choice.Variant = d.nearest(choice.Variant, r)
	case r.Holding != 0 && r.Holding>>choice.Variant&1 == 0:
		reason = ReasonContext
		choice.Variant = d.nearest(choice.Variant, r)
	default:
		choice.Variant = d.reaching(r)
	}
	choice.Replica, choice.Policy = -1, by
	choice.Fallback, choice.Propensity = true, 0
	if choice.Reason == "" {
		choice.Reason = reason
	}
}

// nearest returns the variant nearest to the one chosen that may answer and has room, or
// −1. It prefers smaller ones to larger ones, which cost more than the choice. If qualities
// are predicted for the request, it returns the best of the smaller ones for it, else the
// best of the larger ones; of equals the smaller.
func (d *Decision) nearest(chosen int, r *fleet.Request) int {
	best := -1
	for v := chosen - 1; v >= 0 && !d.found(best, r); v-- {
		if (best < 0 || d.table.Quality(r, v) >= d.table.Quality(r, best)) && d.takes(v, r) {
			best = v
		}
	}
	if best >= 0 {
		return best
	}
	for v := chosen + 1; v < len(d.table.Variants) && !d.found(best, r); v++ {
		if (best < 0 || d.table.Quality(r, v) > d.table.Quality(r, best)) && d.takes(v, r) {
			best = v
		}
	}
	return best
}

// found reports whether no other variant need be looked at for the request: without a
// prediction the first that is found is taken.
func (d *Decision) found(best int, r *fleet.Request) bool {
	return best >= 0 && !r.Predicted.Known
}

// reaching returns the first variant of the table, which is the fastest, that reaches the
// floor and has room.
func (d *Decision) reaching(r *fleet.Request) int {
	for v := range d.table.Variants {
		if d.takes(v, r) {
			return v
		}
	}
	return -1
}

// takes reports whether the variant reaches the floor and has room: a free place, which the
// gate allows if there is one.
func (d *Decision) takes(v int, r *fleet.Request) bool {
	if !d.table.Reaches(r, v) {
		return false
	}
	if d.policies.gate == nil {
		return d.view.VariantAvailable(v)
	}
	return d.roomiest(v, r) >= 0
}
