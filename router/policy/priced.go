package policy

import (
	"math"

	"gearshift/router/fleet"
)

// Priced chooses the variant with the greatest
//
//	weight·quality − l·(weight·P(miss) + o·Σ ΔP(miss) of the requests running)
//
// where P(miss) is the predicted probability that the request is late, and the
// sum is over the requests on the replica that it joins and on the host's other
// replicas: what the choice does to them. The replica is the one that the
// balancer would pick.
//
// The time per token of a batch is that of its decode step, at the tokens that
// it holds and next to the host's busy neighbours, and its share of prefills (see
// [SlackFit]); the neighbour of the next smaller variant is taken to be as busy
// as it will be, with b as in [TaskAware]. The chance that the time is above the
// deadline is logistic,
//
//	1 / (1 + exp((1 − time/deadline) / s))
//
// for the load will change before the request ends. The request itself is as late as it is
// forecast to be for whichever of its deadlines it fills most. Where the tokens, at their
// expected peak, are more than the KV cache holds, requests wait until the
// surplus is released, which a request makes up for only if it is long enough:
// with outputs of geometric length it is late by its wait with probability
//
//	1 − exp(−surplus · time / (deadline − time))
//
// Surplus is the mean of max(0, use − 1) if the true use of the cache lies
// anywhere within u of the predicted one.
//
// A neighbour feels the request as long as that runs, which by their times per
// token may be a small part of its own life. Requests that run are taken to have
// the deadline of the one that joins, and a weight of 1.
type Priced struct {
	predictor
	price, spread, others, looseness float64 // l, s, o, u
	named
}

var pricedForm = form{
	kind: "priced", rule: "a priced-latency policy",
	parameters: []parameter{
		{letter: "l", name: "price", standard: 1, most: 1000,
			grid: []float64{0.25, 0.5, 1, 2, 4}},
		{letter: "s", name: "spread", standard: 0.05, most: 10, open: true,
			grid: []float64{0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3}},
		{letter: "o", name: "weight of others", standard: 0.5, most: 1000,
			grid: []float64{0, 0.25, 0.5, 1, 2}},
		{letter: "u", name: "spread of KV use", standard: 0.4, most: 10, open: true,
			grid: []float64{0.02, 0.05, 0.1, 0.2, 0.4, 0.6}},
		{letter: "b", name: "foresight", standard: 1, most: 100,
			grid: []float64{0, 1, 2, 4}},
	},
}

func newPriced(m *Maker, values []float64) (Rule, error) {
	predictor, err := m.predictor(pricedForm.rule)
	if err != nil {
		return nil, err
	}
	predictor.foresee(m.Table, values[4])
	return &Priced{
		predictor: predictor, price: values[0], spread: values[1], others: values[2], looseness: values[3],
		named: named(pricedForm.name(values)),
	}, nil
}

// Decide implements router.Policy. Of equals, the smaller variant.
func (p *Priced) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	task := &v.Table.Tasks[r.Task]
	best, value := -1, math.Inf(-1)
	for m := range v.Table.Variants {
		if !v.VariantAvailable(m) {
			continue
		}
		if x := task.Weight*v.Table.Quality(r, m) - p.price*p.loss(v, r, m); best < 0 || x > value {
			best, value = m, x
		}
	}
	return best
}

// loss is the expected weight of the requests that the choice makes late.
func (p *Priced) loss(v *fleet.View, r *fleet.Request, variant int) float64 {
	deadline := allowed(v, r)
	return p.picked(v, r, variant, func(i int) float64 { return p.lossOn(v, r, i, deadline) })
}

func (p *Priced) lossOn(v *fleet.View, r *fleet.Request, replica int, deadline float64) float64 {
	before := running(v, replica)
	after := before.joinedBy(r)
	neighbours := p.neighbours(v, replica, v.RecentRate())
	time := p.tokenTime(v, replica, after, r.PromptTokens, neighbours)
	own := p.late(time, p.kvPeak(v, replica, after), deadline)
	weighed := v.Table.Tasks[r.Task].Weight * own
	if pressed := p.pressed(v, r, replica, before, time, neighbours); pressed > time {
		weighed = v.Table.Tasks[r.Task].Weight * p.late(pressed, p.kvPeak(v, replica, after), deadline)
	}
	if p.others == 0 {
		return weighed
	}
	then := p.late(p.tokenTime(v, replica, before, r.PromptTokens, neighbours), p.kvPeak(v, replica, before), deadline)
	others := float64(before.requests) * (own - then)
	more := p.duty(replica, after, neighbours) - p.duty(replica, before, neighbours)
	for _, i := range v.Table.ReplicasOn(v.Table.Replicas[replica].Host) {
		if i != replica && v.InFlight[i] > 0 {
			others += p.slowed(v, r, i, more, time, deadline)
		}
	}
	return weighed + p.others*others
}

// slowed is how many more requests of the replica are late when a neighbour's
// duty grows while a request of that time per token runs.
func (p *Priced) slowed(v *fleet.View, r *fleet.Request, replica int, more, joined, deadline float64) float64 {
	b, neighbours := running(v, replica), p.neighbours(v, replica, v.RecentRate())
	use := p.kvPeak(v, replica, b)
	before := p.tokenTime(v, replica, b, r.PromptTokens, neighbours)
	after := p.tokenTime(v, replica, b, r.PromptTokens, neighbours+more)
	after = before + (after-before)*min(1, joined/before)
	return float64(b.requests) * (p.late(after, use, deadline) - p.late(before, use, deadline))
}

// late is the probability that a request of a batch with this time per token
// and use of the KV cache is late.
func (p *Priced) late(time, use, deadline float64) float64 {
	inTime := logistic((1 - time/deadline) / p.spread)
	surplus := p.surplus(use)
	if surplus == 0 {
		return 1 - inTime
	}
	if time >= deadline {
		return 1
	}
	return 1 - inTime*math.Exp(-surplus*time/(deadline-time))
}

// surplus is the share of the KV cache that is wanted beyond it, if the true use
// is uniform within u of the predicted one.
func (p *Priced) surplus(use float64) float64 {
	switch low := use - 1 + p.looseness; {
	case low <= 0:
		return 0
	case low < 2*p.looseness:
		return low * low / (4 * p.looseness)
	}
	return use - 1
}

// logistic is 1/(1+exp(−x)). Most loads are far from their deadline on either
// side, and cost no exponential.
func logistic(x float64) float64 {
	switch {
	case x > 20:
		return 1
	case x < -20:
		return 0
	}
	return 1 / (1 + math.Exp(-x))
}
