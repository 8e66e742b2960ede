package router

import "gearshift/router/fleet"

// choose picks variant and replica from d.view, on which at least one replica is available
// (of the pinned variant, if there is one). It always succeeds: where the policy fails, the
// fallback decides, and where the balancer fails, the emptiest replica is taken.
func (d *Decision) choose(pinned int, r *fleet.Request, random uint64) Choice {
	choice := Choice{Variant: pinned, Replica: -1, Policy: Pinned}
	if pinned < 0 && !d.ofClass(&choice, r) {
		choice = d.ask(r)
		choice.Propensity = 1
		d.raise(&choice, r)
	}
	if choice.Placed = choice.Replica >= 0; !choice.Placed {
		d.settle(&choice, r, random)
	}
	return choice
}

// again is choose after d.view has changed. It keeps the variant, if that is still
// available, and picks the replica again.
func (d *Decision) again(choice Choice, pinned int, r *fleet.Request, random uint64) Choice {
	if d.policy.placer != nil || choice.Fallback || !d.view.VariantAvailable(choice.Variant) {
		return d.fromScratch(choice.Trial, pinned, r, random)
	}
	d.settle(&choice, r, random)
	return choice
}

// fromScratch chooses as if nothing had been chosen. If the policy on trial has no answer
// now, the policy in charge decides.
func (d *Decision) fromScratch(trial bool, pinned int, r *fleet.Request, random uint64) Choice {
	choice := d.choose(pinned, r, random)
	if charge := &d.policies.policy; choice.Fallback && choice.Reason != ReasonFloor && choice.Reason != ReasonLimited && choice.Reason != ReasonContext && d.policy != charge {
		d.policy = charge
		choice = d.choose(pinned, r, random)
	}
	choice.Trial = trial
	if d.policies.trial != nil { // unknown: the other policy has not been asked again
		choice.Propensity = 0
	}
	return choice
}

// settle completes the choice with a replica of its variant.
func (d *Decision) settle(choice *Choice, r *fleet.Request, random uint64) {
	choice.Replica = d.pick(r, choice.Variant, random)
	if choice.Replica >= 0 {
		return
	}
	choice.Replica = emptiest(&d.view, choice.Variant)
	choice.Fallback = true
	if choice.Reason == "" {
		choice.Reason = ReasonBalancer
	}
}

// ask asks the policy, then the fallback, then takes the first variant that is available.
// The replica is −1 unless a Placer has decided.
func (d *Decision) ask(r *fleet.Request) Choice {
	variant, replica, reason := d.decide(d.policy, r)
	if reason == "" {
		return Choice{Variant: variant, Replica: replica, Policy: d.policy.name}
	}
	choice := Choice{Replica: -1, Fallback: true, Reason: reason}
	if spare := &d.policies.spare; reason == ReasonDoubted && spare.policy != nil {
		if variant, replica, reason = d.decide(spare, r); reason == "" {
			choice.Variant, choice.Replica, choice.Policy = variant, replica, spare.name
			return choice
		}
	}
	fallback := &d.policies.fallback
	if variant, replica, reason = d.decide(fallback, r); reason == "" {
		choice.Variant, choice.Replica, choice.Policy = variant, replica, fallback.name
		return choice
	}
	for !d.view.VariantAvailable(choice.Variant) {
		choice.Variant++
	}
	choice.Policy = LastResort
	return choice
}

// decide asks one policy. Reason is empty if its answer can be followed; the
// replica is −1 where the balancer is to choose it.
func (d *Decision) decide(s *boundPolicy, r *fleet.Request) (variant, replica int, reason string) {
	if s.policy == nil {
		return -1, -1, ReasonMissing
	}
	if s.doubtable && d.policies.doubted {
		return -1, -1, ReasonDoubted
	}
	defer func() {
		if value := recover(); value != nil {
			if s.panicReported == nil || !s.panicReported.Swap(true) {
				d.panicked(s.name, value)
			}
			variant, replica, reason = -1, -1, ReasonPanic
		}
	}()
	scratch := d.room(s.policy)
	if s.placer != nil {
		return d.place(s.placer, r, scratch)
	}
	variant = s.policy.Decide(&d.view, r, scratch)
	switch {
	case variant == -1:
		reason = ReasonNoChoice
	case variant < 0 || variant >= len(d.table.Variants):
		reason = ReasonOutOfRange
	case !d.view.VariantAvailable(variant):
		reason = ReasonUnavailable
	}
	return variant, -1, reason
}

// place is decide for a Placer. A placement that cannot be followed is the policy's
// failure, not the balancer's: its variant is not trusted either.
func (d *Decision) place(p Placer, r *fleet.Request, scratch []float32) (variant, replica int, reason string) {
	replica = p.Place(&d.view, r, scratch)
	switch {
	case replica == -1:
		return -1, -1, ReasonNoChoice
	case replica < 0 || replica >= len(d.table.Replicas):
		return -1, -1, ReasonOutOfRange
	case !d.view.Available(replica):
		return -1, -1, ReasonUnavailable
	}
	return d.table.Replicas[replica].Variant, replica, ""
}

// pick asks the balancer, unless only one replica can answer, which is then available. It
// returns −1 if the balancer's answer is not an available replica of the variant.
func (d *Decision) pick(r *fleet.Request, variant int, random uint64) (replica int) {
	if r.Only > 0 {
		return r.Only - 1
	}
	defer func() {
		if value := recover(); value != nil {
			d.panicked(d.balancer.Name(), value)
			replica = -1
		}
	}()
	replica = d.balancer.Pick(&d.view, r, variant, random)
	if replica < 0 || replica >= len(d.table.Replicas) ||
		d.table.Replicas[replica].Variant != variant || !d.view.Available(replica) {
		return -1
	}
	return replica
}

func (x *rules) panicked(name string, value any) {
	if x.onPanic != nil {
		x.onPanic(name, value)
	}
}

// emptiest returns the first available replica of the variant with the fewest requests in
// flight, or −1 if none is available.
func emptiest(v *fleet.View, variant int) int {
	shortest := v.Shortest(variant)
	for _, i := range v.ReplicasOf(variant) {
		if v.Available(i) && int(v.InFlight[i]) == shortest {
			return i
		}
	}
	return -1
}
