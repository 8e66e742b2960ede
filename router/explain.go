package router

import "gearshift/router/fleet"

// Explainer is what a policy adds if it can tell what it goes by. Explain
// returns what each variant is worth to it, NaN where it has no value, and in a
// few fixed words why it chooses as it does. The values may lie in scratch. It
// is bound as Decide is, on the same view and request.
type Explainer interface {
	Explain(v *fleet.View, r *fleet.Request, scratch []float32) (values []float32, why string)
}

// Inquirer is what a [Witness] adds if it wants to know what the policy went by.
// Explained is called before Saw, if the policy in charge decided the request
// and is an [Explainer]. The values are the router's again when it returns.
//
// In a crowd the variant may have been decided on a view some microseconds
// older than that explained and shown.
type Inquirer interface {
	Explained(values []float32, why string)
}

// show tells the witness of a choice whose place is taken.
func (d *Decision) show(w Witness, choice Choice, r *fleet.Request) {
	if q, ok := w.(Inquirer); ok && d.policy.explainer != nil && choice.Policy == d.policy.name {
		if values, why, ok := d.explain(r); ok {
			q.Explained(values, why)
		}
	}
	w.Saw(&d.view, choice)
}

// explain asks the policy. One that panics has nothing to say: its place is
// taken, and an explanation must not lose it.
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

// room is a scratch buffer for the policy.
func (d *Decision) room(p Policy) []float32 {
	need := max(0, p.Scratch())
	if need > len(d.scratch) {
		d.scratch = make([]float32, need)
	}
	return d.scratch[:need]
}
