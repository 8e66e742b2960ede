// Package planner holds upper references for routing policies: a decider that
// simulates each choice forward on the true future before it makes it
// ([Clairvoyant]), and a bound on what any policy can reach in the fluid limit
// ([Fluid]).
//
// A clairvoyant looks at the environment that it decides for, so each is made
// for one run of it. It reads no clock and draws nothing at random: the same run
// gives the same choices.
package planner

import (
	"gearshift/router/fleet"
)

// Decider chooses a variant for a request. A clairvoyant is one, and needs one as
// its base: the policy that is taken to route everything after the request in
// question. Decide must be pure; it has scratch of length Scratch.
type Decider interface {
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
}

// tie is the difference of two sums of utilities below which they are equal:
// well above their rounding, well below what one request is worth.
const tie = 1e-9
