package quality

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/env/evaluation"
)

// Points is the number of equal steps in which [Pair.Curve] goes from no traffic to all of it.
const Points = 20

// resamples is the number of times that the prompts are drawn for an interval.
const resamples = 1000

// Pair compares who answers which share of the traffic: the larger of two models gets those
// prompts where most is gained by it, as predicted, and the smaller the others. Gains are in
// the mean score of all prompts, over giving the larger one as many prompts at random, in
// the mean over all shares.
type Pair struct {
	Small string `json:"small"`
	Large string `json:"large"`
	// Prompts have scores of both.
	Prompts   int     `json:"prompts"`
	SmallMean float64 `json:"small_mean"`
	LargeMean float64 `json:"large_mean"`
	// Gain is over random, and OverTask over the order of the tasks' mean gains, which is nil
	// where the prompts are of one task; 95 % intervals over prompts.
	Gain     evaluation.Interval  `json:"gain"`
	OverTask *evaluation.Interval `json:"gain_over_task,omitempty"`
	// Oracle is the gain of a choice by the true scores.
	Oracle float64 `json:"oracle_gain"`
	// Enough reports whether the interval of the gain, over the tasks' means if there are
	// several tasks, lies above zero. If it does not, about More further labels would have
	// it do so; at the least, where the gain itself is not above zero.
	Enough bool `json:"enough"`
	More   int  `json:"more_labels,omitempty"`
	// Curve has the gains at each share.
	Curve []Point `json:"curve,omitempty"`
}

// Point is a share of the traffic that the larger model answers, with the gains there.
type Point struct {
	Share  float64             `json:"share"`
	Gain   evaluation.Interval `json:"gain"`
	Task   float64             `json:"task_gain"`
	Oracle float64             `json:"oracle_gain"`
}

// reached returns the part of the oracle's gain that is reached.
func (p *Pair) reached() float64 {
	if p.Oracle <= 0 {
		return 0
	}
	return p.Gain.Mean / p.Oracle
}

// bar returns the gain that decides whether there are labels enough.
func (p *Pair) bar() evaluation.Interval {
	if p.OverTask != nil {
		return *p.OverTask
	}
	return p.Gain
}

// ordering is prompts in the order in which the larger model gets them. Those of one tie are
// taken together, each in part.
type ordering struct {
	prompts []int
	ends    []bool // of ties
	gains   []float64
}

// order sorts the prompts by what is expected, the highest first.
func order(prompts []int, gains []float64, expected func(prompt int) float64) *ordering {
	o := &ordering{prompts: slices.Clone(prompts), gains: gains, ends: make([]bool, len(prompts))}
	slices.SortFunc(o.prompts, func(a, b int) int { return cmp.Or(cmp.Compare(expected(b), expected(a)), cmp.Compare(a, b)) })
	for i := range o.prompts {
		o.ends[i] = i+1 == len(o.prompts) || expected(o.prompts[i]) != expected(o.prompts[i+1])
	}
	return o
}

// measure returns the gain over random in the mean over all shares, and writes those at
// 0, 1/[Points], … to curve, if it is not nil. The prompts count as often as counts says.
func (o *ordering) measure(counts []uint16, curve []float64) (mean float64) {
	var all, sum float64
	for _, i := range o.prompts {
		n := float64(counts[i])
		all, sum = all+n, sum+n*o.gains[i]
	}
	if all == 0 {
		clear(curve)
		return 0
	}
	random := sum / all
	var before, taken, n, gained float64 // of the prompts before the tie, and of the tie
	next := 0
	for k, i := range o.prompts {
		c := float64(counts[i])
		n, gained = n+c, gained+c*o.gains[i]
		if !o.ends[k] {
			continue
		}
		mean += gained * ((all-before-n/2)/all - 0.5)
		for ; curve != nil && next <= Points && float64(next)/Points*all <= before+n+1e-9; next++ {
			share := float64(next) / Points
			part := 0.0
			if n > 0 {
				part = (share*all - before) / n
			}
			curve[next] = (taken+part*gained)/all - share*random
		}
		before, taken, n, gained = before+n, taken+gained, 0, 0
	}
	return mean / all
}

// comparison is a pair being measured.
type comparison struct {
	pair                    *Pair
	predicted, task, oracle *ordering
	means, over             []float64   // by resample
	curves                  [][]float64 // by point and resample
}

// compare prepares the comparison of two columns, the smaller first.
func compare(p *Predicted, small, large int) *comparison {
	var prompts []int
	gains := make([]float64, len(p.Scores))
	for i, row := range p.Scores {
		if gains[i] = float64(row[large]) - float64(row[small]); gains[i] == gains[i] {
			prompts = append(prompts, i)
		}
	}
	c := &comparison{pair: &Pair{Small: p.Columns[small], Large: p.Columns[large], Prompts: len(prompts)}}
	for _, i := range prompts {
		c.pair.SmallMean += float64(p.Scores[i][small]) / float64(len(prompts))
		c.pair.LargeMean += float64(p.Scores[i][large]) / float64(len(prompts))
	}
	c.predicted = order(prompts, gains, func(i int) float64 { return p.Held[i][large] - p.Held[i][small] })
	c.oracle = order(prompts, gains, func(i int) float64 { return gains[i] })
	if means := taskMeans(prompts, gains, p.Tasks); len(means) > 1 {
		c.task = order(prompts, gains, func(i int) float64 { return means[p.Tasks[i]] })
	}
	c.curves = make([][]float64, Points+1)
	return c
}

// taskMeans returns the mean gain of each task. It is of the very prompts that are judged,
// which flatters the tasks a little.
func taskMeans(prompts []int, gains []float64, tasks []string) map[string]float64 {
	sums, counts := map[string]float64{}, map[string]float64{}
	for _, i := range prompts {
		sums[tasks[i]] += gains[i]
		counts[tasks[i]]++
	}
	for task := range sums {
		sums[task] /= counts[task]
	}
	return sums
}

// resample measures the gains on prompts that were drawn with replacement.
func (c *comparison) resample(counts []uint16, curve []float64) {
	mean := c.predicted.measure(counts, curve)
	c.means = append(c.means, mean)
	for k, gain := range curve {
		c.curves[k] = append(c.curves[k], gain)
	}
	if c.task != nil {
		c.over = append(c.over, mean-c.task.measure(counts, nil))
	}
}

// finish fills in the pair, from the prompts as they are and what resamples gave.
func (c *comparison) finish(once []uint16) *Pair {
	p := c.pair
	curve, task, oracle := make([]float64, Points+1), make([]float64, Points+1), make([]float64, Points+1)
	mean := c.predicted.measure(once, curve)
	p.Gain = interval(mean, c.means)
	p.Oracle = c.oracle.measure(once, oracle)
	if c.task != nil {
		over := interval(mean-c.task.measure(once, task), c.over)
		p.OverTask = &over
	}
	for k := range curve {
		p.Curve = append(p.Curve, Point{Share: float64(k) / Points, Gain: interval(curve[k], c.curves[k]), Task: task[k], Oracle: oracle[k]})
	}
	p.Enough = p.bar().Lo > 0
	if !p.Enough {
		p.More = more(p.Prompts, p.bar())
	}
	return p
}

// mostMore bounds the number of labels that is asked for.
const mostMore = 1_000_000

// more estimates how many further labels would have the interval lie above zero: its width
// shrinks as one over the square root of their number. A gain that is not above zero is taken
// to be as high as its interval allows, or else as many labels again are asked for.
func more(n int, gain evaluation.Interval) int {
	expected := gain.Mean
	if expected <= 0 {
		expected = gain.Hi
	}
	factor := 2.0
	if half := gain.Mean - gain.Lo; expected > 0 && half > 0 {
		factor = (half / expected) * (half / expected)
	}
	further := min(mostMore, float64(n)*(factor-1))
	return max(10, int(math.Ceil(further/10))*10)
}

// interval returns the 95 % interval of the percentile bootstrap.
func interval(mean float64, estimates []float64) evaluation.Interval {
	slices.Sort(estimates)
	n := float64(len(estimates))
	return evaluation.Interval{Mean: mean, Lo: estimates[int(0.025*n)], Hi: estimates[int(0.975*n)-1]}
}

// pairs compares each column with each larger one. Columns are in the order of their sizes.
func pairs(p *Predicted, seed uint64) []Pair {
	var list []*comparison
	for large := range p.Columns {
		for small := range large {
			list = append(list, compare(p, small, large))
		}
	}
	random := rand.New(rand.NewPCG(seed, 0x6761696e))
	counts, curve := make([]uint16, len(p.Scores)), make([]float64, Points+1)
	for range resamples {
		clear(counts)
		for range counts {
			counts[random.IntN(len(counts))]++
		}
		for _, c := range list {
			c.resample(counts, curve)
		}
	}
	for i := range counts {
		counts[i] = 1
	}
	done := make([]Pair, len(list))
	for i, c := range list {
		done[i] = *c.finish(counts)
	}
	return done
}
