// Package router turns a request into a lease on one replica, in one call: it views the
// fleet, asks the policy for the variant and the balancer for the replica, and takes a place
// there. It knows no HTTP and reads no clock, so a server, a simulator and a test use it
// alike.
package router

import (
	"errors"

	"gearshift/router/fleet"
)

// Policy chooses the variant that answers a request.
//
// Decide is pure: it depends only on its arguments and on what the policy was built from,
// changes neither view nor request, and allocates nothing. It returns a variant v for which
// view.VariantAvailable(v) holds, or −1 if there is none. Scratch returns the length of the
// buffer that Decide may write to; its contents mean nothing between calls. One policy
// serves many goroutines, each with its own scratch.
//
// Name returns the policy's reference, with its version where it has one ("name@version").
type Policy interface {
	Name() string
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
}

// Matcher is implemented by a policy that was made for one fleet. Match returns an error
// that says why it cannot route for t, or nil. [Core.SetPolicy] and [New] refuse a policy
// that does not match.
type Matcher interface {
	Match(t *fleet.Table) error
}

// Placer is implemented by a policy that chooses the replica too, so that no balancer is
// asked. Place returns a replica i for which view.Available(i) holds, or −1 if there is
// none. The rules of Decide hold for it too; Decide returns the variant of its replica.
type Placer interface {
	Place(v *fleet.View, r *fleet.Request, scratch []float32) (replica int)
}

// Balancer chooses the replica that runs a request, among the available ones of the chosen
// variant. Pick returns −1 if there is none. Random is uniform over 64 bits and the only
// source of chance: the same arguments give the same replica. Like Decide, Pick is pure,
// allocates nothing, and is shared by goroutines.
type Balancer interface {
	Name() string
	Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
}

// Forecaster estimates how a request would fare on each replica, and writes that into
// v.Forecasts for policies, gate and balancer. Otherwise it is pure, allocates nothing once
// v has the room, and is shared by goroutines.
type Forecaster interface {
	Forecast(v *fleet.View, r *fleet.Request)
}

// Observer is shown the view on which a request was routed, and the choice, once its place
// is taken. It must not keep the view after Observe returns.
type Observer interface {
	Observe(v *fleet.View, c Choice)
}

// Doubtable marks a Policy that was trained on forecasts. Another decides while these are off; see [Core.Doubt].
type Doubtable interface{ Doubtable() }

// Errors of [Core.Route].
var (
	// ErrNoReplica means that every replica that could answer is down.
	ErrNoReplica = errors.New("no replica is up")
	// ErrSaturated means that replicas are up, and all are full.
	ErrSaturated = errors.New("every replica that is up is full")
	// ErrLate means that replicas have free places, and that by the gate an answer would
	// come too late on each of them.
	ErrLate = errors.New("no replica could answer in time")
	// ErrUnknownTask means that the request's task is not in the fleet's table.
	ErrUnknownTask = errors.New("no such task")
	// ErrUnknownVariant means that the pinned variant is not in the fleet's table.
	ErrUnknownVariant = errors.New("no such variant")
)

// Choice is the outcome of a routed request. The caller of Route ends the lease, in
// whatever way the work ends.
type Choice struct {
	Lease            fleet.Lease
	Variant, Replica int
	// Policy names what chose the variant: a policy's own name, [Pinned], [Raised],
	// [OfClass], [Limited], [Degraded] or [LastResort].
	Policy string
	// Fallback is whether the policy, or the balancer, did not decide this request, and
	// Reason why: one of the Reason constants. Both are zero in the normal case.
	Fallback bool
	Reason   string
	// Pace is the forecast pace on its replica when it began (fleet.Forecast); zero without
	// forecasts.
	Pace float64
	// Propensity is the probability with which the variant was chosen, by the division of
	// requests between the policy in charge and the one on trial: 1 where both choose it or
	// there is no trial, 0 for a variant that is pinned, its class's or raised, and where it is unknown.
	// Estimates from logs weigh by it.
	Propensity float64
	// Placed is whether the policy chose the replica too, so that no balancer was asked.
	Placed bool
	// Trial is whether the request was in the share of the policy on trial, which decided
	// it unless it failed to.
	Trial bool
}

// Ruled reports whether the request, or its class, named the variant, so that no policy was asked.
func (c *Choice) Ruled() bool { return c.Policy == Pinned || c.Policy == OfClass }

// Values of Choice.Policy where no policy chose the variant.
const (
	// Pinned is a variant that the caller asked for by name.
	Pinned = "pinned"
	// OfClass is the variant that the request's class gets first under load, by fleet.Request.First.
	OfClass = "class"
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
	// ReasonDoubted: forecasts are off, by which the policy chooses; see [Core.Doubt].
	ReasonDoubted = "policy is doubted"
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
	// an available one of the variant; the emptiest such was taken instead.
	ReasonBalancer = "balancer picked no available replica"
)
