package policy

import (
	"errors"
	"fmt"
	"math"

	"gearshift/router/fleet"
)

// Universal needs no tuning: one set of parameters serves all fleets. It chooses the replica with
// the greatest
//
//	weight·quality·P(in time) − o·Σ weight·quality·ΔP(in time)
//
// where the sum is over the requests that run on the replica and on the host's other replicas: what
// they are expected to lose by the request. It satisfies router.Placer.
//
// It weighs each request by its own task, as [Priced] does not: by the task's deadline, decay,
// weight, qualities and mean lengths. A request needs the time w until its tokens begin (its prompt,
// half of the step under way, and the wait for room in the KV cache), and then t for each token: that
// of the batch it joins, with the prompts of those that replace the others there. If its output is of
// geometric length with mean L, it keeps the deadline d per token with probability
//
//	P(in time) = exp(−(w − t) / ((d − t)·L)) / (1 + exp((t/d − 1) / (n + s·more/d)))
//
// Short outputs cannot make up for w − t, t being what the first token may take as any other. Where
// w < t they are in time even if t > d. Loads change, and with them what of t is more than a request
// takes alone, while n is left of it; near the deadline a smooth function replaces d − t. A soft
// deadline counts as a later, hard one that earns as much.
//
// Where the request runs for a part of another's life, it slows that one by the same part. Smaller
// variants on the host are taken to be as busy as they will be, with b as in [TaskAware].
type Universal struct {
	predictor
	spread, near, others, looseness float64 // s, n, o, u

	tasks    []expected
	stall    [][]float64 // ms of a mean prompt, by replica and task
	least    []float64   // ms per token of a request alone, by replica
	variants int
	named
}

// Untuned names the rule that decides where none is tuned for the fleet.
const Untuned = "universal"

// Cautious names the rule that decides while a learned policy is doubted, since forecasts are off by a tenth
// or more: the least spread of its own is a tenth.
const Cautious = "universal:0.1,0.1"

// expected describes a task's requests before they come.
type expected struct {
	prompt, output float64 // tokens
	share          float64 // of all requests
	deadline       float64 // ms per token
}

var universalForm = form{
	kind: Untuned, rule: "a universal policy",
	parameters: []parameter{
		{letter: "s", name: "spread", standard: 0.1, most: 10,
			grid: []float64{0, 0.03, 0.06, 0.1, 0.2}},
		{letter: "n", name: "least spread", standard: 0.015, most: 10, open: true,
			grid: []float64{0.005, 0.015, 0.03, 0.06, 0.1}},
		{letter: "o", name: "weight of others", standard: 0.7, most: 1000,
			grid: []float64{0, 0.35, 0.7, 1, 1.5}},
		{letter: "u", name: "spread of KV use", standard: 0.3, most: 10, open: true,
			grid: []float64{0.05, 0.1, 0.2, 0.3, 0.5}},
		{letter: "b", name: "foresight", standard: 0.2, most: 100,
			grid: []float64{0, 0.1, 0.2, 0.4, 1}},
	},
}

func newUniversal(m *Maker, values []float64) (Rule, error) {
	predictor, err := m.predictor(universalForm.rule)
	if err != nil {
		return nil, err
	}
	p := &Universal{
		predictor: predictor, spread: values[0], near: values[1], others: values[2], looseness: values[3],
		variants: len(m.Table.Variants), named: named(universalForm.name(values)),
	}
	p.foresee(m.Table, values[4])
	for i := range m.Table.Tasks {
		p.tasks = append(p.tasks, expect(m, i))
	}
	for i := range m.Table.Replicas {
		stall := make([]float64, len(p.tasks))
		for t := range p.tasks {
			stall[t] = p.profiles[i].Prefill(int(p.tasks[t].prompt), 0)
		}
		p.stall = append(p.stall, stall)
		p.least = append(p.least, p.predictor.step(i, 1, 0))
	}
	return p, nil
}

// expect returns what the maker knows of a task's requests, or of those of all tasks.
func expect(m *Maker, task int) expected {
	e := expected{
		prompt: max(0, m.Lengths.Context-m.Lengths.Output/2), output: m.Lengths.Output,
		share: 1 / float64(len(m.Table.Tasks)), deadline: due(&m.Table.Tasks[task], nil),
	}
	if task < len(m.Lengths.Tasks) {
		l := &m.Lengths.Tasks[task]
		e.prompt, e.output, e.share = l.Prompt, l.Output, l.Share
	}
	e.output = max(1, e.output)
	return e
}

// due returns the hard deadline, in ms per token, that earns as much as the request's own or, without
// one, as its task's: of a decay that leaves half of the utility until its end, half-way to that.
func due(t *fleet.Task, r *fleet.Request) float64 {
	allowed := t.Allowed(0)
	if r != nil {
		allowed = t.Allowed(r.Deadline)
	}
	deadline, last := fleet.Milliseconds(allowed), fleet.Milliseconds(t.Last(allowed))
	if t.Decay == nil || last <= deadline {
		return deadline
	}
	return deadline + (last-deadline)*(1+t.Decay.Factor(last-(last-deadline)*1e-6, deadline))/2
}

// Scratch is a number for each variant, for explanations.
func (p *Universal) Scratch() int { return p.variants }

// Match checks the numbers of replicas, tasks and variants.
func (p *Universal) Match(t *fleet.Table) error {
	if len(p.tasks) != len(t.Tasks) {
		return fmt.Errorf("it was made for %d tasks, the fleet has %d", len(p.tasks), len(t.Tasks))
	}
	return errors.Join(matchVariants(t, p.variants), p.predictor.Match(t))
}

// Decide implements router.Policy: it is the variant of what Place chooses.
func (p *Universal) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	if replica := p.Place(v, r, scratch); replica >= 0 {
		return v.Table.Replicas[replica].Variant
	}
	return -1
}

// Place implements router.Placer. Of equals, the first in the table. Since others can only lose by a
// request, their losses are not reckoned where it would earn less than elsewhere by itself.
func (p *Universal) Place(v *fleet.View, r *fleet.Request, _ []float32) int {
	var room [8]occupancy // more replicas on one host would allocate
	best, highest := -1, math.Inf(-1)
	rate := v.RecentRate()
	for _, h := range v.Hosts() {
		on := p.occupancies(room[:0], v, h, rate)
		for k := len(on) - 1; k >= 0; k-- {
			i := on[k].replica
			if !v.Available(i) {
				continue
			}
			j := p.join(v, r, on, k)
			value := p.earns(v, r, on, &j)
			if best >= 0 && value < highest {
				continue
			}
			value -= p.others * p.lost(v, on, &j)
			if best < 0 || value > highest || value == highest && i < best {
				best, highest = i, value
			}
		}
	}
	return best
}

// Explain implements router.Explainer: of each variant the value of its best available replica, NaN
// if it has none.
func (p *Universal) Explain(v *fleet.View, r *fleet.Request, scratch []float32) (values []float32, why string) {
	values = scratch[:p.variants]
	for m := range values {
		values[m] = float32(math.NaN())
	}
	var room [8]occupancy
	rate := v.RecentRate()
	for _, h := range v.Hosts() {
		on := p.occupancies(room[:0], v, h, rate)
		for k := range on {
			if !v.Available(on[k].replica) {
				continue
			}
			j := p.join(v, r, on, k)
			value := float32(p.earns(v, r, on, &j) - p.others*p.lost(v, on, &j))
			if m := on[k].variant; !(values[m] >= value) {
				values[m] = value
			}
		}
	}
	return values, byGain
}

// byGain is why [Universal] chooses.
const byGain = "the most earned, less what others lose"
