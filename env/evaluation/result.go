package evaluation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Result is how one policy did on one workload.
type Result struct {
	Policy   string `json:"policy"`
	Workload string `json:"workload"`
	// Requests that the row rests on, over all seeds.
	Requests    int      `json:"requests"`
	Utility     Interval `json:"utility"`      // mean per request
	DeadlineMet Interval `json:"deadline_met"` // share of requests
	// Windows holds, for each level of peak performance, the mean number of
	// windows a run at or above it (LBE-22).
	Windows map[string]float64 `json:"windows"`
	// Share of the requests by variant.
	Share map[string]float64 `json:"share"`
	TTFT  Percentiles        `json:"ttft_ms"`
	TPOT  Percentiles        `json:"tpot_ms"`
	// SimRequestsPerS is the simulator's speed on all cores used; the one
	// figure that differs between two runs of the same evaluation.
	SimRequestsPerS float64 `json:"sim_requests_per_s"`
}

// Interval is a mean over seeds with its 95 % bootstrap interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
}

// Percentiles over all requests of all seeds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func summarise(c *Contestant, workload string, runs []tally, speed float64) Result {
	variants := c.Fleet.Table.Variants
	r := Result{
		Policy: c.Name, Workload: workload,
		Windows: map[string]float64{}, Share: map[string]float64{},
		SimRequestsPerS: math.Round(speed),
	}
	// mean sums before it divides, so that equal values give themselves.
	mean := func(of func(*tally) float64) (sum float64) {
		for i := range runs {
			sum += of(&runs[i])
		}
		return sum / float64(len(runs))
	}
	for l, level := range WindowLevels {
		r.Windows[LevelName(level)] = mean(func(t *tally) float64 { return t.windows[l] })
	}
	for v := range variants {
		r.Share[variants[v].Name] = mean(func(t *tally) float64 { return t.share[v] })
	}
	var utility, met []float64
	var ttft, tpot []float32
	for i := range runs {
		r.Requests += runs[i].requests
		utility = append(utility, runs[i].utility)
		met = append(met, runs[i].met)
		ttft = append(ttft, runs[i].ttft...)
		tpot = append(tpot, runs[i].tpot...)
	}
	r.Utility, r.DeadlineMet = Bootstrap(utility), Bootstrap(met)
	r.TTFT, r.TPOT = percentiles(ttft), percentiles(tpot)
	return r
}

// LevelName is how a window level is written, "0.96".
func LevelName(level float64) string { return fmt.Sprintf("%.2f", level) }

const resamples = 2000

// Bootstrap is the mean of the values with the percentile bootstrap's 95 %
// interval. The resampling has a fixed seed, so equal values give equal
// intervals.
func Bootstrap(values []float64) Interval {
	n := len(values)
	if n == 0 {
		return Interval{}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	means := make([]float64, resamples)
	for i := range means {
		var s float64
		for range n {
			s += values[rng.IntN(n)]
		}
		means[i] = s / float64(n)
	}
	slices.Sort(means)
	return Interval{
		Mean: sum(values) / float64(n),
		Lo:   means[int(0.025*resamples)],
		Hi:   means[int(0.975*resamples)-1],
	}
}

// percentiles sorts v in place; nearest rank.
func percentiles(v []float32) Percentiles {
	if len(v) == 0 {
		return Percentiles{}
	}
	slices.Sort(v)
	rank := func(p float64) float64 { return float64(v[int(math.Ceil(p*float64(len(v))))-1]) }
	return Percentiles{P50: rank(0.50), P99: rank(0.99)}
}
