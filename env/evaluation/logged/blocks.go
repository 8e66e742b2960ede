package logged

import (
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/env/evaluation"
)

// Requests that follow each other meet the same load, so they are no independent
// samples: intervals come from a bootstrap over blocks of them (Künsch 1989), here
// blocks that do not overlap.

// resamples is how often a bootstrap draws.
const resamples = 2000

// ratio is a weighted sum of values, and of the weights: an estimate is the
// quotient of the two.
type ratio struct{ sum, weight float64 }

func (r *ratio) add(value, weight float64) {
	r.sum += weight * value
	r.weight += weight
}

// mean returns the quotient; 0 of nothing.
func (r ratio) mean() float64 {
	if r.weight == 0 {
		return 0
	}
	return r.sum / r.weight
}

// blocks gathers an estimate block by block.
type blocks struct {
	length int // decisions
	run, n int // of the last decision
	list   []ratio
}

// newBlocks is for so many decisions: as many blocks as there are decisions in each.
func newBlocks(decisions int) *blocks {
	return &blocks{length: max(1, int(math.Round(math.Sqrt(float64(decisions))))), run: -1}
}

// next begins the next decision of a run; what is added from here on is its.
func (b *blocks) next(run int) {
	if b.n++; run != b.run || b.n >= b.length {
		b.run, b.n = run, 0
		b.list = append(b.list, ratio{})
	}
}

func (b *blocks) add(value, weight float64) { b.list[len(b.list)-1].add(value, weight) }

// interval returns the estimate with its 95 % interval. The resampling has a fixed seed.
// False says that there is nothing to estimate by.
func (b *blocks) interval() (evaluation.Interval, bool) {
	var all ratio
	for _, x := range b.list {
		all.sum, all.weight = all.sum+x.sum, all.weight+x.weight
	}
	if all.weight == 0 {
		return evaluation.Interval{}, false
	}
	rng := rand.New(rand.NewPCG(1, 2))
	estimates := make([]float64, 0, resamples)
	for range resamples {
		var drawn ratio
		for range b.list {
			x := b.list[rng.IntN(len(b.list))]
			drawn.sum, drawn.weight = drawn.sum+x.sum, drawn.weight+x.weight
		}
		if drawn.weight > 0 { // else all blocks drawn are empty
			estimates = append(estimates, drawn.mean())
		}
	}
	slices.Sort(estimates)
	at := func(share float64) float64 { return estimates[int(share*float64(len(estimates)-1))] }
	return evaluation.Interval{Mean: all.mean(), Lo: at(0.025), Hi: at(0.975)}, true
}
