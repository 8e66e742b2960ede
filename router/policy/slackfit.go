package policy

import (
	"time"

	"gearshift/router/fleet"
)

// DefaultFactor is the share of the deadline that [SlackFit] fills.
const DefaultFactor = 0.93

// SlackFit chooses the largest variant whose predicted latency per output
// token is within a factor of the request's deadline, and the smallest
// available one if none is. It passes over a variant that is predicted no better for
// the request than a smaller one that is available. Deadlines to the first token and to the end count
// alike, by the shares of them that are predicted to be filled.
//
// The prediction is for the variant's emptiest available replica, joined by
// the request, at batch n:
//
//	step(n, n·Context, neighbours) + n·prefill(prompt)/Output
//
// Neighbours is the duty of the host's other busy replicas at their own
// batches, each as if alone, or together with the others where engines take turns.
// The second term is the prefills that interrupt a decode: in steady state each of
// the n sequences makes room for another once in the Output steps that the request
// takes. Of equally empty replicas the slowest counts, for the balancer may take any.
//
// The prediction takes all requests in flight for running ones. A replica
// whose KV cache is full lets the rest wait, which a profile does not show: under
// a long overload the plain rule keeps to a variant whose queue grows. With a
// second parameter, k, it counts tokens too: a variant does not fit if what the
// replica holds with the request, at its expected peak, is more than the share
// k of its KV cache.
type SlackFit struct {
	predictor
	factor, fill float64 // fill 0: tokens are not counted
	named
}

var slackFitForm = form{
	kind: "slackfit", rule: "a slack-fit policy",
	parameters: []parameter{
		{letter: "f", name: "factor", standard: DefaultFactor, most: 10, open: true, // keeps a mistyped percentage out
			grid: []float64{0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97, 1.02}},
		{letter: "k", name: "KV share", most: 10, open: true, optional: true,
			grid: []float64{0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2}},
	},
}

func newSlackFit(m *Maker, values []float64) (Rule, error) {
	predictor, err := m.predictor(slackFitForm.rule)
	if err != nil {
		return nil, err
	}
	p := &SlackFit{predictor: predictor, factor: values[0], named: named(slackFitForm.name(values))}
	if len(values) > 1 {
		p.fill = values[1]
	}
	return p, nil
}

// Decide implements router.Policy.
func (p *SlackFit) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	limit := p.factor * float64(v.Table.Tasks[r.Task].Allowed(r.Deadline)) / float64(time.Millisecond)
	smallest := -1
	for m := len(v.Table.Variants) - 1; m >= 0; m-- {
		shortest := v.Shortest(m)
		if shortest < 0 {
			continue
		}
		if !noBetter(v, r, m) && p.latency(v, r, m, shortest) <= limit && p.room(v, r, m, shortest) {
			return m
		}
		smallest = m
	}
	return smallest
}

// latency is the slowest prediction, in milliseconds per output token, over
// the variant's available replicas with the fewest requests in flight.
func (p *SlackFit) latency(v *fleet.View, r *fleet.Request, variant, shortest int) float64 {
	var slowest float64
	for _, i := range v.ReplicasOf(variant) {
		if likely(v, i, shortest) {
			slowest = max(slowest, p.predict(v, r, i))
		}
	}
	return slowest
}

// room reports whether the request fits the KV caches of all those replicas.
func (p *SlackFit) room(v *fleet.View, r *fleet.Request, variant, shortest int) bool {
	if p.fill == 0 {
		return true
	}
	for _, i := range v.ReplicasOf(variant) {
		if likely(v, i, shortest) && p.kvPeak(v, i, running(v, i).joinedBy(r)) > p.fill {
			return false
		}
	}
	return true
}

func (p *SlackFit) predict(v *fleet.View, r *fleet.Request, replica int) float64 {
	host := v.Table.Replicas[replica].Host
	on := v.Table.ReplicasOn(host)
	var neighbours float64
	if p.crowded[host] {
		var room [8]float64
		for k, duty := range p.settled(room[:0], v.Table, replica, func(i int) batch { return p.batch(int(v.InFlight[i])) }) {
			if on[k] != replica {
				neighbours += duty
			}
		}
	} else {
		for _, i := range on {
			if i != replica {
				neighbours += p.duty(i, p.batch(int(v.InFlight[i])), 0)
			}
		}
	}
	time := p.tokenTime(v, replica, p.batch(int(v.InFlight[replica])+1), r.PromptTokens, neighbours)
	return p.pressed(v, r, replica, running(v, replica), time, neighbours)
}

// batch is one of so many sequences of the mean context.
func (p *SlackFit) batch(sequences int) batch {
	return batch{sequences, int(float64(sequences) * p.lengths.Context)}
}

// likely reports whether the replica is available, with the fewest requests in
// flight of its variant.
func likely(v *fleet.View, replica, shortest int) bool {
	return v.Available(replica) && int(v.InFlight[replica]) == shortest
}
