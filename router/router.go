// Package router turns a request into a lease on one replica, in one atomic
// call: the view of the fleet, the policy that chooses the variant, the
// balancer that chooses its replica, and the place taken there. It knows no
// HTTP and reads no clock, so a server and a test drive it alike.
package router

import (
	"errors"

	"gearshift/router/fleet"
)

// Policy chooses the variant that answers a request.
//
// Decide is pure: it depends on nothing but its arguments and what the policy
// was built from, changes neither view nor request, and allocates nothing. It
// returns a variant v for which view.VariantAvailable(v), or −1 if there is
// none. Scratch is the length of the buffer that Decide may scribble on; its
// contents mean nothing between calls. One policy serves many goroutines, each
// with its own scratch.
//
// Name is the policy's reference, with its version where it has one
// ("name@version").
type Policy interface {
	Name() string
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
}

// Matcher is what a policy adds if it was made for one fleet: Match explains
// why it cannot route for t, or returns nil. A policy that does not match is
// refused by [Core.SetPolicy] and by [New].
type Matcher interface {
	Match(t *fleet.Table) error
}

// Placer is what a policy adds if it chooses the replica too, so that no balancer
// is asked. Place returns a replica i for which view.Available(i), or −1 if there
// is none; otherwise it is bound as Decide is, which gives the replica's variant.
type Placer interface {
	Place(v *fleet.View, r *fleet.Request, scratch []float32) (replica int)
}

// Balancer chooses the replica that runs a request, among those of the chosen
// variant that are available. It returns −1 if none is. Random is uniform over
// 64 bits and the only source of chance: the same arguments give the same
// replica. Like Decide, Pick is pure, allocates nothing, and is shared by
// goroutines.
type Balancer interface {
	Name() string
	Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
}

// Forecaster reckons what a request would do on each replica, and writes it into
// v.Forecasts, for policies and balancers to go by. It is pure but for that,
// allocates nothing once v has the room, and is shared by goroutines.
type Forecaster interface {
	Forecast(v *fleet.View, r *fleet.Request)
}

// Witness is shown the view on which a request was routed, and the choice, once
// its place is taken. The view is the router's again when Saw returns.
type Witness interface {
	Saw(v *fleet.View, c Choice)
}

// Errors of [Core.Route].
var (
	// ErrNoReplica says that every replica that could answer is down.
	ErrNoReplica = errors.New("no replica is up")
	// ErrSaturated says that replicas are up, and all are full.
	ErrSaturated = errors.New("every replica that is up is full")
	// ErrLate says that replicas are up and have places, and that an answer would
	// come too late on each of them, by the gate.
	ErrLate = errors.New("no replica could answer in time")
	// ErrUnknownTask says that the request's task is not in the fleet's table.
	ErrUnknownTask = errors.New("no such task")
	// ErrUnknownVariant says that the pinned variant is not in the fleet's table.
	ErrUnknownVariant = errors.New("no such variant")
)

// Choice is the outcome of a routed request. Whoever asked for it ends the
// lease, whatever way the work ends.
type Choice struct {
	Lease            fleet.Lease
	Variant, Replica int
	// Policy names what chose the variant: a policy's own name, [Pinned], [Raised],
	// [Degraded] or [LastResort].
	Policy string
	// Fallback says that the policy, or the balancer, did not decide this
	// request, and Reason why: one of the Reason constants. Both are zero in
	// the normal case.
	Fallback bool
	Reason   string
	// Pace is what was forecast where it was begun (fleet.Forecast); zero without
	// forecasts.
	Pace float64
	// Propensity is how likely the variant was, by the division of requests between
	// the policy in charge and one on trial: 1 where both want it, or where there is
	// no trial; 0 for a variant that is pinned or raised, and where it is not known.
	Propensity float64
	// Trial says that the request was in the share of the policy on trial, which
	// decided it unless it failed to.
	Trial bool
}

// What Choice.Policy says when no policy chose the variant.
const (
	// Pinned is a variant that the caller asked for by name.
	Pinned = "pinned"
	// Raised is the first variant of the table that reaches the request's quality
	// floor and has room, where the chosen one does not reach it.
	Raised = "raised"
	// Limited is the variant nearest to the policy's choice that fleet.Request.Variants
	// allows.
	Limited = "limited"
	// Degraded is a variant with room by the gate, where the chosen one had none.
	Degraded = "degraded"
	// LastResort is the first available variant of the table, taken when the
	// fallback policy failed too.
	LastResort = "last-resort"
)

// Reasons for a fallback. They are few and fixed, so they can label a metric.
const (
	// ReasonMissing: no policy has been set.
	ReasonMissing = "no policy"
	// ReasonNoChoice: the policy returned −1 while a replica was available.
	ReasonNoChoice = "policy made no choice"
	// ReasonOutOfRange: the policy returned an index that is no variant's, or as
	// a [Placer] no replica's.
	ReasonOutOfRange = "policy chose no known variant"
	// ReasonUnavailable: the policy chose a variant with no available replica, or
	// as a [Placer] a replica that is not available.
	ReasonUnavailable = "policy chose an unavailable variant"
	// ReasonPanic: the policy panicked; see [Config.OnPanic].
	ReasonPanic = "policy panicked"
	// ReasonLate: the gate saw no room on a replica of the chosen variant, and some on
	// one of another.
	ReasonLate = "chosen replica would be late"
	// ReasonFloor: the chosen variant is below fleet.Request.MinQuality.
	ReasonFloor = "chosen variant is below the quality floor"
	// ReasonLimited: the chosen variant is not among fleet.Request.Variants.
	ReasonLimited = "chosen variant is not among those allowed"
	// ReasonContext: the chosen variant is not among fleet.Request.Holding.
	ReasonContext = "prompt is too long for the chosen variant"
	// ReasonBalancer: the balancer panicked or picked a replica that is not
	// an available one of the variant; the emptiest such took its place.
	ReasonBalancer = "balancer picked no available replica"
)
