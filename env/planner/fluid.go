package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Fluid bounds the mean utility of any policy that does not know output lengths,
// at a steady rate, in the fluid limit: there requests are a flow, batches have
// the composition of the average, and no queue comes from chance. It is a linear
// program over how much of each task each variant answers in time. What carries
// the flow:
//
// A replica spends its time at batches of n sequences. There a request takes
//
//	R(n) = (L − 1)·step(n, n·context) + n·prefill
//
// for the L − 1 tokens that follow the first, and for the prefills, its own and
// those that interrupt it: with n in the batch, n requests start in the time
// that one takes. So n/R(n) requests a second leave the replica. L, the prompt
// and the context are the means over requests and over their tokens; prefill is
// the least time that a prompt costs in any prefill step. n is bounded by the KV
// cache over the context, the engine's sequences, and the replica's limit.
//
// In time means that the requests answered in time by a replica take, summed,
// no more than their deadlines allow: the sum of R is at most that of D·L. This
// follows from each being in time, and is all that is asked of them.
//
// The replicas of a host share its time among patterns, which of them are busy
// at once. In each, a busy neighbour slows a step by the least duty it can have.
//
// What it leaves out, so that the bound is above what can be reached: chance in
// arrivals and lengths, the wait for the step in progress, the rounding to KV
// blocks and preemptions, the work spent on late answers, and the balancer.
// Requests that carry prompts are told apart by their scores, rounded up to quarters.
// Chance can also help: a policy that knows lengths may choose which requests
// to answer well, and a burst shorter than the requests meets room that a steady
// rate does not. For those it is no bound.
type Fluid struct {
	config env.Config
	load   load
	shares []float64 // by task
	flows  []flow
	tiers  [][]tier // by flow
}

// class is hosts that are alike, down to the profiles of their replicas.
type class struct {
	hosts    float64
	replicas []carrier
	patterns [][]throughput // by pattern of busy replicas, by replica; nil where idle
}

// carrier is one replica of a class.
type carrier struct{ variant int }

// throughput is what a replica can do in a pattern, by batch size from 1: requests per
// second.
type throughput []float64

// tier is a latency per token that is allowed, in seconds, and what share of
// the quality is left at most above the tier before.
type tier struct{ allowed, factor float64 }

// Bound is the answer at one rate.
type Bound struct {
	Rate    float64 `json:"rate"`
	Utility float64 `json:"utility"` // mean per request
	// Share of each task's requests that each variant answers in time, by task
	// and variant, in a mixture that reaches the bound.
	Share [][]float64 `json:"share"`
}

// NewFluid prepares the bound for a fleet and what its requests look like. The
// configuration needs no workload. Hosts whose speed changes are taken to be at their
// quickest.
func NewFluid(c env.Config, shape workloads.Shape) (*Fluid, error) {
	if err := shape.Validate(c.Table.Tasks); err != nil {
		return nil, fmt.Errorf("cannot bound: %w", err)
	}
	if len(shape.Tasks) > 0 {
		return nil, errors.New("cannot bound: workload.task_lengths: requests of all tasks are reckoned with as equally long; without that key it works")
	}
	for i, p := range c.Profiles {
		if p.Batches != nil {
			return nil, fmt.Errorf("cannot bound: replica %s runs batches to their end, which the bound does not know; profiles by token would be right", c.Table.Replicas[i].Name)
		}
	}
	c.Profiles = c.Quickest()
	f := &Fluid{config: c, load: newLoad(shape), shares: shape.Mix.Shares(c.Table.Tasks)}
	f.flows = flows(&c, shape)
	for i := range f.flows {
		f.tiers = append(f.tiers, tiers(&f.flows[i].task))
	}
	return f, nil
}

// tierStep is how finely a decay is resolved, as a share of the deadline.
const tierStep, maxTiers = 0.0025, 400

// paperDeadline is that at which decays by a share are defined, in ms; see [fleet.Task.Utility].
const paperDeadline = 40

// tiers resolves the decay of a task from above: within a tier, what is left at
// its beginning.
func tiers(t *fleet.Task) []tier {
	decay := t.Decay
	if decay == nil {
		decay = fleet.Hard{}
	}
	perToken := t.Allowed(0)
	deadline := float64(perToken) / float64(time.Millisecond)
	if t.Deadline == 0 { // that is a share of a deadline to the end, which decays by its share
		deadline = paperDeadline
	}
	list := []tier{{perToken.Seconds(), 1}}
	for k := 1; k <= maxTiers; k++ {
		begin := deadline * (1 + tierStep*float64(k-1))
		left := decay.Factor(math.Nextafter(begin, math.Inf(1)), deadline)
		if left <= 0 {
			break
		}
		allowed := perToken.Seconds() * (1 + tierStep*float64(k))
		if k == maxTiers {
			allowed = perToken.Seconds() * 1e6 // whatever is left for ever
		}
		list = append(list, tier{allowed, left})
	}
	return list
}

// At returns the bound at so many requests per second.
func (f *Fluid) At(rate float64) (Bound, error) {
	if !(rate > 0) || math.IsInf(rate, 1) {
		return Bound{}, fmt.Errorf("cannot bound: a rate of %v", rate)
	}
	p := f.program(rate)
	a := mat.NewDense(len(p.limits), len(p.columns)+len(p.limits), nil)
	costs := make([]float64, len(p.columns)+len(p.limits))
	basis := make([]int, len(p.limits))
	for j, col := range p.columns {
		costs[j] = -col.worth
		for _, x := range col.entries {
			a.Set(x.row, j, a.At(x.row, j)+x.value)
		}
	}
	for i := range p.limits {
		basis[i] = len(p.columns) + i // the slack
		a.Set(i, basis[i], 1)
	}
	cost, x, err := lp.Simplex(costs, a, p.limits, 1e-10, basis)
	if err != nil {
		return Bound{}, fmt.Errorf("cannot bound at %v requests per second: %w", rate, err)
	}
	b := Bound{Rate: rate, Utility: min(-cost/rate, f.peak()), Share: make([][]float64, len(f.shares))}
	for t := range b.Share {
		b.Share[t] = make([]float64, len(f.config.Table.Variants))
	}
	for j, col := range p.columns {
		if col.answers {
			b.Share[col.task][col.variant] += x[j] / (rate * f.shares[col.task])
		}
	}
	return b, nil
}

// peak returns the mean utility of the best variant in time, always.
func (f *Fluid) peak() (mean float64) {
	for i := range f.flows {
		task := &f.flows[i].task
		mean += f.flows[i].share * task.Weight * slices.Max(task.Quality)
	}
	return mean
}

// Over returns the mean of the bound over requests that come at these rates, as if
// each rate lasted for ever. Where there are many rates it is computed at a grid,
// at most 1 % below each, where the bound is no lower. A rate that is not known,
// zero, is an error.
func (f *Fluid) Over(rates []float64) (float64, error) {
	if len(rates) == 0 {
		return 0, errors.New("cannot bound: no request")
	}
	at := func(rate float64) float64 { return rate }
	if distinct(rates) > exactRates {
		at = func(rate float64) float64 { return math.Exp(math.Floor(math.Log(rate)/rateStep) * rateStep) }
	}
	known := map[float64]float64{}
	var sum float64
	for _, rate := range rates {
		if !(rate > 0) {
			return 0, errors.New("cannot bound: a request whose rate is not known")
		}
		utility, ok := known[at(rate)]
		if !ok {
			b, err := f.At(at(rate))
			if err != nil {
				return 0, err
			}
			utility = b.Utility
			known[at(rate)] = utility
		}
		sum += utility
	}
	return sum / float64(len(rates)), nil
}

// Up to exactRates rates are taken as they are; others in steps of rateStep in
// the logarithm.
const exactRates, rateStep = 64, 0.01

func distinct(values []float64) int {
	seen := map[float64]bool{}
	for _, v := range values {
		seen[v] = true
	}
	return len(seen)
}

// meanSquare returns the second moment of the lengths drawn, after max has cut them.
// Of the lognormal it leaves out the rounding, as [workloads.Lengths.Expected].
func meanSquare(l workloads.Lengths) float64 {
	most := float64(l.Max)
	if l.Max == 0 {
		most = workloads.MaxTokens
	}
	switch l.Distribution {
	case "uniform":
		n := float64(l.Max - l.Min + 1)
		mean := float64(l.Min+l.Max) / 2
		return mean*mean + (n*n-1)/12
	case "geometric":
		// Σ (2k+1)·q^k for k below most, where q is P(one more).
		q := 1 - 1/l.Mean
		whole := (1 + q) / (1 - q) / (1 - q)
		beyond := math.Pow(q, most) * (2*most/(1-q) + (1+q)/(1-q)/(1-q))
		return whole - beyond
	case "lognormal":
		variance := math.Log1p(l.CV * l.CV)
		sigma := math.Sqrt(variance)
		z := (math.Log(most) - math.Log(l.Mean) + variance/2) / sigma
		return l.Mean*l.Mean*(1+l.CV*l.CV)*phi(z-2*sigma) + most*most*phi(-z)
	default:
		return float64(l.Value) * float64(l.Value)
	}
}

// phi returns the distribution function of the standard normal.
func phi(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
