package router

import "gearshift/router/fleet"

// Explainer is implemented by a policy that can explain its choices. Explain returns the
// value that the policy gives to each variant, NaN where it gives none, and the reason of
// its choice in a few fixed words. The values may lie in scratch. The rules of Decide hold
// for Explain too, on the same view and request.
type Explainer interface {
	Explain(v *fleet.View, r *fleet.Request, scratch []float32) (values []float32, why string)
}

// ExplanationObserver is implemented by an [Observer] that wants explanations.
// ObserveExplanation is called before Observe, if the policy decided the request itself and
// is an [Explainer]. The values are valid until it returns. For a variant that is [OfClass] it
// is called with [WhyClass] and no values.
//
// Where many requests come at once, the variant may have been decided on a view some
// microseconds older than the one explained and shown.
type ExplanationObserver interface {
	ObserveExplanation(values []float32, why string)
}

// show shows the observer a choice whose place is taken.
func (d *Decision) show(o Observer, choice Choice, r *fleet.Request) {
	q, ok := o.(ExplanationObserver)
	switch {
	case !ok:
	case choice.Policy == OfClass:
		q.ObserveExplanation(nil, WhyClass)
	case d.policy.explainer != nil && choice.Policy == d.policy.name:
		if values, why, ok := d.explain(r); ok {
			q.ObserveExplanation(values, why)
		}
	}
	o.Observe(&d.view, choice)
}

// explain asks the policy for an explanation. A panic is only reported: the request's place
// is taken, and an explanation must not lose it.
func (d *Decision) explain(r *fleet.Request) (values []float32, why string, ok bool) {
	defer func() {
		if value := recover(); value != nil {
			d.panicked(d.policy.name, value)
			values, why, ok = nil, "", false
		}
	}()
	values, why = d.policy.explainer.Explain(&d.view, r, d.room(d.policy.policy))
	return values, why, true
}

// room returns a scratch buffer for the policy.
func (d *Decision) room(p Policy) []float32 {
	need := max(0, p.Scratch())
	if need > len(d.scratch) {
		d.scratch = make([]float32, need)
	}
	return d.scratch[:need]
}
