package policy

import (
	"errors"
	"fmt"
	"math"

	"gearshift/router/fleet"
)

// foreseen is how much of the way of [TaskAware.use] counts: as far as the caches
// come in some 0.3 of the time of a mean output.
const foreseen = 0.25

// TaskAware gives the large variants to the tasks that gain most by them. It
// chooses the largest variant with room for the request, and the smallest
// available one if none has. There is room if
//
//	predicted time per token ≤ (f − g·lack) · deadline
//	predicted use of the KV caches ≤ k − h·lack²·demand
//
// Lack is how much less the task gains by the variant, over the best smaller
// one, than the task that gains most: 0 for that task, near 1 for one that
// gains next to nothing. So the price of a place is paid in load: the less a
// task gains, the less loaded a variant must be. A task that gains nothing by a
// variant does without.
//
// Where the request's qualities are predicted, its gain is that over the best
// smaller variant that is available, and its lack is how much less that is than
// what few requests exceed, or than the largest gain of any task if that is more.
// The less sure the prediction is, the nearer is this measure to that largest gain.
//
// The time is that of the batch that the balancer would pick, with the request,
// as in [Priced]. There the replica of the next smaller variant on the same host
// is taken to be as busy as it will be if it gets what this variant refuses: it
// is idle with probability exp(−b·rate·T/replicas), where T is the time that a
// request takes there alone, and else has the duty of one sequence.
//
// The use of the KV caches is over all replicas of the variant together, with a part
// of what their requests have yet to fill. Demand
// is the share of the variant's time that all arrivals would take at full
// batches (see [LeastWork]), by the recent rate: in a calm the caches may fill;
// in a burst those tasks that gain little keep out before they have. The square
// makes them do so well before those that gain more.
type TaskAware struct {
	predictor
	factor, reserve   float64 // f, g
	fill, fillReserve float64 // k, h

	lack    [][]float64 // by task and variant; +Inf: no gain
	largest []float64   // gain of any task, by variant
	demand  [][]float64 // by task and variant, per arrival a second
	named
}

var taskAwareForm = form{
	kind: "task-aware", rule: "a task-aware policy",
	parameters: []parameter{
		{letter: "f", name: "factor", standard: 1, most: 10, open: true,
			grid: []float64{0.9, 0.95, 0.98, 1, 1.02, 1.1, 1.25}},
		{letter: "g", name: "reserve", standard: 0.08, most: 10,
			grid: []float64{0, 0.03, 0.06, 0.1, 0.2}},
		{letter: "k", name: "KV share", standard: 1, most: 10, open: true,
			grid: []float64{0.6, 0.8, 0.9, 1, 1.1, 1.2}},
		{letter: "h", name: "KV reserve", standard: 1, most: 10,
			grid: []float64{0, 0.3, 0.6, 1, 1.5, 2.2}},
		{letter: "b", name: "foresight", standard: 0.5, most: 100,
			grid: []float64{0, 0.3, 1, 2, 4}},
	},
}

func newTaskAware(m *Maker, values []float64) (Rule, error) {
	predictor, err := m.predictor(taskAwareForm.rule)
	if err != nil {
		return nil, err
	}
	p := &TaskAware{
		predictor: predictor, factor: values[0], reserve: values[1], fill: values[2], fillReserve: values[3],
		named: named(taskAwareForm.name(values)),
	}
	p.lack, p.largest = lacks(m.Table)
	p.foresee(m.Table, values[4])
	for i := range m.Table.Tasks {
		p.demand = append(p.demand, p.demands(m.Table, i))
	}
	return p, nil
}

// demands is, for each variant, the share of its time that one arrival of the
// task per second takes.
func (p *TaskAware) demands(t *fleet.Table, task int) []float64 {
	deadline := fleet.Milliseconds(t.Tasks[task].Allowed(0))
	demand := make([]float64, len(t.Variants))
	for m := range demand {
		replicas := t.ReplicasOf(m)
		for _, i := range replicas {
			demand[m] += p.share(t, i, deadline, 0) * p.lengths.Output / 1000 // seconds
		}
		demand[m] /= max(1, float64(len(replicas)*t.Places(m))) // the mean, over all places
	}
	return demand
}

// lacks returns, by task and variant, 1 − gain/largest gain of any task, and by
// variant that largest gain; see [TaskAware].
func lacks(t *fleet.Table) (lack [][]float64, largest []float64) {
	lack = make([][]float64, len(t.Tasks))
	largest = make([]float64, len(t.Variants))
	for i := range t.Tasks {
		task := &t.Tasks[i]
		lack[i] = make([]float64, len(t.Variants))
		best := task.Quality[0]
		for m := 1; m < len(t.Variants); m++ {
			lack[i][m] = task.Weight * (task.Quality[m] - best)
			largest[m] = max(largest[m], lack[i][m])
			best = max(best, task.Quality[m])
		}
	}
	for i := range lack {
		for m := 1; m < len(t.Variants); m++ {
			if lack[i][m] <= 0 {
				lack[i][m] = math.Inf(1)
				continue
			}
			lack[i][m] = 1 - lack[i][m]/largest[m]
		}
	}
	return lack, largest
}

// lackOf returns the lack of the request for the variant: its task's, or that of
// what is predicted for it.
func (p *TaskAware) lackOf(v *fleet.View, r *fleet.Request, variant int) float64 {
	if !r.Predicted.Known {
		return p.lack[r.Task][variant]
	}
	weight := v.Table.Tasks[r.Task].Weight
	gain := weight * (v.Table.Quality(r, variant) - bestSmaller(v, r, variant))
	if gain <= 0 {
		return math.Inf(1)
	}
	most := p.largest[variant]
	if r.Predicted.Gains != nil { // as far as the qualities are of the prompt, so is the measure
		most += float64(r.Predicted.Sure) * max(0, weight*float64(r.Predicted.Gains[variant])-most)
	}
	return max(0, 1-gain/most)
}

// Match checks the numbers of replicas, tasks and variants.
func (p *TaskAware) Match(t *fleet.Table) error {
	if len(p.lack) != len(t.Tasks) {
		return fmt.Errorf("it was made for %d tasks, the fleet has %d", len(p.lack), len(t.Tasks))
	}
	return errors.Join(matchVariants(t, len(p.lack[0])), p.predictor.Match(t))
}

// Decide implements router.Policy.
func (p *TaskAware) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	rate, smallest := v.RecentRate(), -1
	for m := len(v.Table.Variants) - 1; m >= 0; m-- {
		if !v.VariantAvailable(m) {
			continue
		}
		if m > 0 && p.room(v, r, m, rate) {
			return m
		}
		smallest = m
	}
	return smallest
}

func (p *TaskAware) room(v *fleet.View, r *fleet.Request, variant int, rate float64) bool {
	lack := p.lackOf(v, r, variant)
	if math.IsInf(lack, 1) {
		return false
	}
	return p.use(v, r, variant) <= p.fill-p.fillReserve*lack*lack*rate*p.demand[r.Task][variant] &&
		p.latency(v, r, variant, rate) <= (p.factor-p.reserve*lack)*allowed(v, r)
}

// use is the share of the KV caches of the variant's available replicas that
// their requests and this one fill; 0 if their size is unknown. A part of the way
// to what they will fill counts: while each that ends is followed by another, the
// tokens held go to a prompt and a mean output for each. So young requests, which
// have yet to grow, leave less room than old ones of as many tokens.
func (p *TaskAware) use(v *fleet.View, r *fleet.Request, variant int) float64 {
	n, held, size := 1, r.PromptTokens, 0
	for _, i := range v.ReplicasOf(variant) {
		if tokens := v.Table.Replicas[i].KVTokens; tokens > 0 && v.Available(i) {
			n += int(v.InFlight[i])
			held += int(v.Held[i])
			size += tokens
		}
	}
	if size == 0 {
		return 0
	}
	grown := float64(n) * (p.lengths.Context + p.lengths.Output/2)
	return ((1-foreseen)*float64(held) + foreseen*grown) / float64(size)
}

// latency is the predicted time per token of the request, in milliseconds, or what
// its other deadlines make of it.
func (p *TaskAware) latency(v *fleet.View, r *fleet.Request, variant int, rate float64) float64 {
	return p.picked(v, r, variant, func(i int) float64 {
		b, neighbours := running(v, i), p.neighbours(v, i, rate)
		return p.pressed(v, r, i, b, p.tokenTime(v, i, b.joinedBy(r), r.PromptTokens, neighbours), neighbours)
	})
}
