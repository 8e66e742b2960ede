package planner

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gearshift/workloads"
)

// Rates is what a planner takes arrivals to be: Poisson, at a rate that nobody
// tells and that is drawn anew now and then, log-uniform between Least and Most
// per second, after an exponential time with mean Phase.
type Rates struct {
	Least, Most float64
	Phase       time.Duration
}

func (m Rates) validate() error {
	if !(m.Least > 0 && m.Most >= m.Least) || math.IsInf(m.Most, 1) {
		return fmt.Errorf("rates from %v to %v; want 0 < least ≤ most", m.Least, m.Most)
	}
	if m.Phase <= 0 {
		return errors.New("phases must have a length")
	}
	return nil
}

// levels is how many rates, evenly spaced in the logarithm, a belief is over.
const levels = 48

// belief is the probability of each rate given the arrivals seen: the forward
// recursion of a hidden Markov chain whose state is the rate.
type belief struct {
	rates []float64
	p     []float64
	phase float64 // seconds
	last  time.Duration
	any   bool
}

func newBelief(m Rates) *belief {
	b := &belief{phase: m.Phase.Seconds()}
	for i := range levels {
		b.rates = append(b.rates, m.Least*math.Pow(m.Most/m.Least, float64(i)/(levels-1)))
		b.p = append(b.p, 1./levels)
	}
	return b
}

// arrive notes an arrival. That the rate may have changed within the gap is
// taken as a change at its beginning.
func (b *belief) arrive(at time.Duration) {
	if b.any {
		gap := (at - b.last).Seconds()
		stay := math.Exp(-gap / b.phase)
		var sum float64
		for i, rate := range b.rates {
			b.p[i] = (stay*b.p[i] + (1-stay)/levels) * rate * math.Exp(-rate*gap)
			sum += b.p[i]
		}
		for i := range b.p {
			if b.p[i] /= sum; !(sum > 0) { // a gap that no rate explains
				b.p[i] = 1. / levels
			}
		}
	}
	b.last, b.any = at, true
}

// draw is a rate under the belief.
func (b *belief) draw(rng *rand.Rand) float64 {
	u, i := rng.Float64(), 0
	for i < levels-1 && u >= b.p[i] {
		u -= b.p[i]
		i++
	}
	return b.rates[i]
}

// fresh is a rate after a change.
func (b *belief) fresh(rng *rand.Rand) float64 { return b.rates[rng.IntN(levels)] }

// expected is the mean rate under the belief.
func (b *belief) expected() (mean float64) {
	for i, rate := range b.rates {
		mean += b.p[i] * rate
	}
	return mean
}

// ahead is the arrivals to come under a belief, as a process for
// [workloads.New]; known, if positive, is a rate that holds for ever instead.
type ahead struct {
	belief *belief
	known  float64
}

// MeanRate implements [workloads.Process].
func (a ahead) MeanRate() float64 {
	if a.known > 0 {
		return a.known
	}
	return a.belief.expected()
}

// IDC implements [workloads.Process]: no closed form is known.
func (ahead) IDC(time.Duration) (float64, bool) { return 0, false }

// Times implements [workloads.Process].
func (a ahead) Times(rng *rand.Rand) workloads.Times {
	if a.known > 0 {
		return &phases{rng: rng, rate: a.known, left: math.Inf(1)}
	}
	b := a.belief
	return &phases{rng: rng, belief: b, rate: b.draw(rng), left: b.phase * rng.ExpFloat64()}
}

// phases is Poisson arrivals whose rate changes after exponential times. Both
// have no memory, so a change begins a new gap.
type phases struct {
	rng             *rand.Rand
	belief          *belief
	now, rate, left float64 // in seconds
}

// Next implements [workloads.Times].
func (p *phases) Next() (time.Duration, float64, bool) {
	gap := p.rng.ExpFloat64() / p.rate
	for gap > p.left {
		p.now += p.left
		p.rate, p.left = p.belief.fresh(p.rng), p.belief.phase*p.rng.ExpFloat64()
		gap = p.rng.ExpFloat64() / p.rate
	}
	p.now += gap
	p.left -= gap
	at := time.Duration(p.now * float64(time.Second))
	return at, p.rate, at >= 0 // not past what a Duration holds
}
