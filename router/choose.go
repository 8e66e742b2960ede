package router

import "gearshift/router/fleet"

// choose picks variant and replica from c.view, on which at least one replica
// is available (of the pinned variant, if there is one). It always succeeds:
// where a policy or the balancer fails, what stands behind it chooses.
// The caller holds c.mu.
func (c *Core) choose(pinned int, r *fleet.Request, random uint64) Choice {
	choice := Choice{Variant: pinned, Replica: -1, Policy: Pinned}
	if pinned < 0 {
		choice = c.ask(r)
	}
	if choice.Replica < 0 {
		choice.Replica = c.pick(r, choice.Variant, random)
	}
	if choice.Replica < 0 {
		choice.Replica = emptiest(&c.view, choice.Variant)
		choice.Fallback = true
		if choice.Reason == "" {
			choice.Reason = ReasonBalancer
		}
	}
	return choice
}

// ask asks the policy, then the fallback, then takes the first variant that is
// available. The replica is −1 unless who decided is a Placer.
func (c *Core) ask(r *fleet.Request) Choice {
	variant, replica, reason := c.decide(&c.policy, r)
	if reason == "" {
		return Choice{Variant: variant, Replica: replica, Policy: c.policy.name}
	}
	choice := Choice{Replica: -1, Fallback: true, Reason: reason}
	if variant, replica, reason = c.decide(&c.fallback, r); reason == "" {
		choice.Variant, choice.Replica, choice.Policy = variant, replica, c.fallback.name
		return choice
	}
	for !c.view.VariantAvailable(choice.Variant) {
		choice.Variant++
	}
	choice.Policy = LastResort
	return choice
}

// decide asks one policy. Reason is empty if its answer can be followed; the
// replica is −1 where the balancer is to choose it.
func (c *Core) decide(s *seat, r *fleet.Request) (variant, replica int, reason string) {
	if s.policy == nil {
		return -1, -1, ReasonMissing
	}
	defer func() {
		if value := recover(); value != nil {
			c.panicked(s.name, value)
			variant, replica, reason = -1, -1, ReasonPanic
		}
	}()
	if s.placer != nil {
		return c.place(s, r)
	}
	variant = s.policy.Decide(&c.view, r, s.scratch)
	switch {
	case variant == -1:
		reason = ReasonNoChoice
	case variant < 0 || variant >= len(c.table.Variants):
		reason = ReasonOutOfRange
	case !c.view.VariantAvailable(variant):
		reason = ReasonUnavailable
	}
	return variant, -1, reason
}

// place is decide for a Placer. A placement that cannot be followed is the
// policy's failure, not the balancer's: what it says of the variant is not
// trusted either.
func (c *Core) place(s *seat, r *fleet.Request) (variant, replica int, reason string) {
	replica = s.placer.Place(&c.view, r, s.scratch)
	switch {
	case replica == -1:
		return -1, -1, ReasonNoChoice
	case replica < 0 || replica >= len(c.table.Replicas):
		return -1, -1, ReasonOutOfRange
	case !c.view.Available(replica):
		return -1, -1, ReasonUnavailable
	}
	return c.table.Replicas[replica].Variant, replica, ""
}

// pick asks the balancer. It returns −1 unless the answer is an available
// replica of the variant.
func (c *Core) pick(r *fleet.Request, variant int, random uint64) (replica int) {
	defer func() {
		if value := recover(); value != nil {
			c.panicked(c.balancer.Name(), value)
			replica = -1
		}
	}()
	replica = c.balancer.Pick(&c.view, r, variant, random)
	if replica < 0 || replica >= len(c.table.Replicas) ||
		c.table.Replicas[replica].Variant != variant || !c.view.Available(replica) {
		return -1
	}
	return replica
}

func (c *Core) panicked(name string, value any) {
	if c.onPanic != nil {
		c.onPanic(name, value)
	}
}

// emptiest is the first available replica of the variant with the fewest
// requests in flight.
func emptiest(v *fleet.View, variant int) int {
	shortest := v.Shortest(variant)
	for _, i := range v.Table.ReplicasOf(variant) {
		if v.Available(i) && int(v.InFlight[i]) == shortest {
			return i
		}
	}
	return -1
}
