package router

import "gearshift/router/fleet"

// raise puts a variant that reaches the request's quality floor in the place of one
// that does not. There is one, or the view would have been hopeless or late. It is
// not the policy's own choice, and tells nothing of how likely that would have been.
func (d *desk) raise(choice *Choice, r *fleet.Request) {
	if d.table.Reaches(r, choice.Variant) {
		return
	}
	choice.Variant, choice.Replica, choice.Policy = d.reaching(r), -1, Raised
	choice.Fallback, choice.Propensity = true, 0
	if choice.Reason == "" {
		choice.Reason = ReasonFloor
	}
}

// reaching is the first variant of the table, which is the quickest, that reaches the
// floor and has room: a place, and the gate's word if there is one.
func (d *desk) reaching(r *fleet.Request) int {
	for v := range d.table.Variants {
		if !d.table.Reaches(r, v) {
			continue
		}
		if d.lineup.gate == nil && d.view.VariantAvailable(v) || d.lineup.gate != nil && d.roomiest(v, r) >= 0 {
			return v
		}
	}
	return -1
}
