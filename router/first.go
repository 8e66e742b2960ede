package router

import "gearshift/router/fleet"

// WhyClass explains a variant that is [OfClass], to an [ExplanationObserver].
const WhyClass = "the class gets this size first at the load of the fleet"

// ofClass replaces the choice by the variant that the request's class gets first, and reports whether it has. It
// does so if the fleet's load has reached the class's limit, and a replica of that variant may answer the request and
// has room for it.
func (d *Decision) ofClass(choice *Choice, r *fleet.Request) bool {
	f := r.First
	if f == nil || d.view.Load() < f.From || !d.takes(f.Variant, r) {
		return false
	}
	*choice = Choice{Variant: f.Variant, Replica: -1, Policy: OfClass}
	return true
}
