package evaluation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is an estimate over seeds with its 95 % bootstrap interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
}

const resamples = 2000

// Bootstrap returns the mean of the values with the percentile bootstrap's 95 %
// interval. The resampling has a fixed seed, so equal values give equal
// intervals. Here as in all statistics over runs NaN, a run without requests, is left
// out.
func Bootstrap(values []float64) Interval { return bootstrap(values, mean) }

// InterquartileMean returns the mean of the values without the lowest and the
// highest quarter (⌊n/4⌋ each), with the percentile bootstrap's 95 % interval:
// less moved by single seeds than the mean, less noisy than the median (Agarwal
// et al., "Deep Reinforcement Learning at the Edge of the Statistical
// Precipice", the rliable library).
func InterquartileMean(values []float64) Interval { return bootstrap(values, interquartileMean) }

// Paired returns the mean of a − b over the same seeds, with its 95 % bootstrap
// interval: what the seeds have in common drops out, so it separates policies
// whose own intervals overlap. The values are in the order of the same seeds; it
// is an error if they differ in number.
func Paired(a, b []float64) (Interval, error) {
	if len(a) != len(b) {
		return Interval{}, fmt.Errorf("cannot compare %d runs with %d: a paired difference takes the same seeds", len(a), len(b))
	}
	difference := make([]float64, len(a))
	for i := range a {
		difference[i] = a[i] - b[i]
	}
	return Bootstrap(difference), nil
}

// bootstrap returns the statistic of the values and its interval. The statistic may
// change the order of the values that it gets.
func bootstrap(values []float64, statistic func([]float64) float64) Interval {
	values = present(values)
	n := len(values)
	if n == 0 {
		return Interval{}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	estimates, sample := make([]float64, resamples), make([]float64, n)
	for i := range estimates {
		for j := range sample {
			sample[j] = values[rng.IntN(n)]
		}
		estimates[i] = statistic(sample)
	}
	slices.Sort(estimates)
	return Interval{
		Mean: statistic(slices.Clone(values)),
		Lo:   estimates[int(0.025*resamples)],
		Hi:   estimates[int(0.975*resamples)-1],
	}
}

// Spread returns the least value, the quartiles and the greatest, by nearest rank; zeros where there is none.
func Spread(values []float64) (five [5]float64) {
	values = present(values)
	if len(values) == 0 {
		return five
	}
	slices.Sort(values)
	for i := range five {
		rank := int(math.Ceil(float64(i*len(values)) / 4))
		five[i] = values[max(0, rank-1)]
	}
	return five
}

// present returns the values that are not NaN.
func present(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

func mean(values []float64) float64 { return sum(values) / float64(len(values)) }

func interquartileMean(values []float64) float64 {
	slices.Sort(values)
	cut := len(values) / 4
	return mean(values[cut : len(values)-cut])
}
