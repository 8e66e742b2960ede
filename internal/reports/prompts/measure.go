package prompts

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/env/evaluation"
)

// resamples is the number of times that prompts are drawn for an interval.
const resamples = 1000

// ranking is prompts in the order in which the larger model gets them: those first where most is
// expected to be gained.
type ranking struct {
	order []int
	last  []bool    // by place: the next has another expectation
	gains []float64 // by prompt
}

// rank orders the prompts that have a gain by what is expected of them.
func rank(gains, expected []float64) *ranking {
	r := &ranking{gains: gains}
	for i, g := range gains {
		if g == g {
			r.order = append(r.order, i)
		}
	}
	slices.SortFunc(r.order, func(a, b int) int { return cmp.Or(cmp.Compare(expected[b], expected[a]), cmp.Compare(a, b)) })
	r.last = make([]bool, len(r.order))
	for k := range r.order {
		r.last[k] = k+1 == len(r.order) || expected[r.order[k]] != expected[r.order[k+1]]
	}
	return r
}

// gain returns the gain in the mean score of all prompts over giving the larger model as many at
// random, in the mean over all shares, where prompts count as often as counts has it. Prompts of
// which the same is expected are taken together.
func (r *ranking) gain(counts []uint16) (mean float64) {
	var all float64
	for _, i := range r.order {
		all += float64(counts[i])
	}
	var before, n, sum float64
	for k, i := range r.order {
		c := float64(counts[i])
		n, sum = n+c, sum+c*r.gains[i]
		if r.last[k] {
			mean += sum * ((all-before-n/2)/all - 0.5)
			before, n, sum = before+n, 0, 0
		}
	}
	return mean / max(1, all)
}

// estimate is a quantity of the prompts as they are, and of each resample of them.
type estimate struct {
	value float64
	drawn []float64
}

// estimates measures rankings of the same prompts on the same resamples.
func estimates(all []*ranking, seed uint64) []estimate {
	list := make([]estimate, len(all))
	counts := once(len(all[0].gains))
	for k, r := range all {
		list[k].value = r.gain(counts)
	}
	random := rand.New(rand.NewPCG(seed, 0x6761696e))
	for range resamples {
		clear(counts)
		for range counts {
			counts[random.IntN(len(counts))]++
		}
		for k, r := range all {
			list[k].drawn = append(list[k].drawn, r.gain(counts))
		}
	}
	return list
}

// once counts each prompt once.
func once(n int) []uint16 {
	counts := make([]uint16, n)
	for i := range counts {
		counts[i] = 1
	}
	return counts
}

// interval returns the estimate with its 95 % interval.
func (e estimate) interval() evaluation.Interval {
	sorted := slices.Sorted(slices.Values(e.drawn))
	n := float64(len(sorted))
	return evaluation.Interval{Mean: e.value, Lo: sorted[int(0.025*n)], Hi: sorted[int(0.975*n)-1]}
}

// less returns by how much it is above another, resample by resample.
func (e estimate) less(other estimate) estimate {
	d := estimate{value: e.value - other.value}
	for i := range e.drawn {
		d.drawn = append(d.drawn, e.drawn[i]-other.drawn[i])
	}
	return d
}

// truth returns the gains of a pair by prompt; NaN where a score is not known.
func (x *set) truth(p pair) []float64 {
	gains := make([]float64, len(x.examples))
	for i := range gains {
		gains[i] = float64(x.examples[i].Scores[p.large]) - float64(x.examples[i].Scores[p.small])
	}
	return gains
}

// expected returns the predicted gains of a pair.
func (p pair) expected(held [][]float64) []float64 {
	gains := make([]float64, len(held))
	for i, row := range held {
		gains[i] = row[p.large] - row[p.small]
	}
	return gains
}

// parts is the number of parts, of as many prompts each, by which calibration is measured.
const parts = 10

// calibration measures how far predictions of one column are off.
type calibration struct {
	off    float64 // by how much a part's mean prediction differs from its mean score, in the mean
	chance float64 // and would if predictions were true: scores of a part vary
	kept   float64 // share of parts whose mean score is not for certain below the mean of its lower bounds
	below  float64 // by how much the lower bounds are below predictions, in the mean
}

// usualError is the mean of a normal distribution's distance from its own mean, in deviations.
var usualError = math.Sqrt(2 / math.Pi)

// calibrated measures predictions with their lower bounds by the scores.
func calibrated(scores, predicted, low []float64) (c calibration) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(predicted[a], predicted[b]) })
	n := len(order)
	for part := range parts {
		in := order[part*n/parts : (part+1)*n/parts]
		var score, squares, expected, bound float64
		for _, i := range in {
			score, squares, expected, bound = score+scores[i], squares+scores[i]*scores[i], expected+predicted[i], bound+low[i]
		}
		deviation := math.Sqrt(max(0, squares-score*score/float64(len(in)))) // of the sum
		c.off += math.Abs(expected-score) / float64(n)
		c.chance += usualError * deviation / float64(n)
		c.below += (expected - bound) / float64(n)
		if score+1.96*deviation >= bound {
			c.kept += 1.0 / parts
		}
	}
	return c
}
