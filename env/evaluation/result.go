package evaluation

import (
	"fmt"
	"math"
	"slices"
)

// Result is how one policy did on one workload.
type Result struct {
	Policy   string `json:"policy"`
	Workload string `json:"workload"`
	// Requests that the row rests on, over all seeds.
	Requests    int      `json:"requests"`
	Utility     Interval `json:"utility"`      // mean per request
	DeadlineMet Interval `json:"deadline_met"` // share of requests that met all of their deadlines
	// Windows holds, for each level of peak performance, the mean number of
	// windows a run at or above it (LBE-22).
	Windows map[string]float64 `json:"windows"`
	// Share of the requests by variant.
	Share map[string]float64 `json:"share"`
	TTFT  Percentiles        `json:"ttft_ms"`
	TPOT  Percentiles        `json:"tpot_ms"`
	// Deadlines is how each kind of deadline was met; nil where none is but those per output
	// token, whose share DeadlineMet is then.
	Deadlines *Deadlines `json:"deadlines,omitempty"`
	// SimRequestsPerS is the simulator's speed on all cores used; the one
	// figure that differs between two runs of the same evaluation.
	SimRequestsPerS float64 `json:"sim_requests_per_s"`
	// UtilityIQM is the interquartile mean over seeds of the mean per request.
	UtilityIQM Interval `json:"utility_iqm"`
	// BestRule is the difference to the rule that did best on the workload; nil
	// for a rule, or if there is none.
	BestRule *Versus `json:"vs_best_rule,omitempty"`
	// Objectives are the values of those that the plan asks for in addition to mean utility.
	Objectives []Valued `json:"objectives,omitempty"`
	// Served is what became of requests that may have to wait; nil where each is begun at
	// its arrival.
	Served *Served `json:"as_served,omitempty"`
	// Streams reports on clients that stream to the same fleet; nil without any.
	Streams *Streams `json:"streams,omitempty"`
	// Rule is whether the policy is one that is written down, not learned.
	Rule bool `json:"-"`
	// Objective is what the policy was trained for.
	Objective Objective `json:"-"`
	// Runs is the mean utility per request of each run, in the order of the seeds; NaN
	// of a run without one.
	Runs []float64 `json:"-"`
}

// Valued is what a policy's runs were worth by an objective.
type Valued struct {
	Objective Objective `json:"objective"`
	Value     Interval  `json:"value"`
	// Runs is the value of each run, in the order of the seeds; NaN of a run without a
	// request.
	Runs []float64 `json:"-"`
}

// Beside returns the objectives other than mean utility, each once: what a [Plan] is asked for.
func Beside(all ...Objective) []Objective {
	var list []Objective
	for _, o := range all {
		if !o.IsZero() && !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	return list
}

// By returns what the runs were worth by an objective: mean utility, or one that the plan asks for.
// It panics for another, which would be a mistake of the program.
func (r *Result) By(o Objective) Valued {
	if o.IsZero() {
		return Valued{Value: r.Utility, Runs: r.Runs}
	}
	for _, v := range r.Objectives {
		if v.Objective == o {
			return v
		}
	}
	panic(fmt.Sprintf("evaluation: the plan does not ask for %v", o))
}

// Percentiles over the requests of all seeds that were answered.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func (p *Plan) summarise(c *Contestant, workload string, runs []tally, speed float64) Result {
	variants := c.Fleet.Table.Variants
	r := Result{
		Policy: c.Name, Workload: workload, Rule: c.Rule, Objective: c.Objective,
		Windows: map[string]float64{}, Share: map[string]float64{},
		SimRequestsPerS: math.Round(speed),
	}
	// average sums before it divides, so that equal values give themselves.
	average := func(of func(*tally) float64) float64 {
		var sum, n float64
		for i := range runs {
			if runs[i].requests > 0 {
				sum += of(&runs[i])
				n++
			}
		}
		return sum / n
	}
	for l, level := range WindowLevels {
		r.Windows[LevelName(level)] = average(func(t *tally) float64 { return t.windows[l] })
	}
	for v := range variants {
		r.Share[variants[v].Name] = average(func(t *tally) float64 { return t.share[v] })
	}
	var utility, met []float64
	var ttft, tpot [][]float32
	for i := range runs {
		r.Requests += runs[i].requests
		utility = append(utility, runs[i].utility)
		met = append(met, runs[i].met)
		ttft = append(ttft, runs[i].ttft)
		tpot = append(tpot, runs[i].tpot)
	}
	r.Utility, r.UtilityIQM, r.DeadlineMet = Bootstrap(utility), InterquartileMean(utility), Bootstrap(met)
	r.Runs = utility
	for i, o := range p.Objectives {
		v := Valued{Objective: o, Runs: make([]float64, len(runs))}
		for j := range runs {
			v.Runs[j] = runs[j].by(i)
		}
		v.Value = Bootstrap(v.Runs)
		r.Objectives = append(r.Objectives, v)
	}
	r.Deadlines = deadlines(runs)
	if c.Fleet.AsServed != nil {
		r.Served = servedOf(runs)
	}
	r.Streams = streamsOf(runs)
	r.TTFT, r.TPOT = percentiles(slices.Concat(ttft...)), percentiles(slices.Concat(tpot...))
	return r
}

// LevelName returns how a window level is written, "0.96".
func LevelName(level float64) string { return fmt.Sprintf("%.2f", level) }

// percentiles are by nearest rank. They change the order of v.
func percentiles(v []float32) Percentiles {
	if len(v) == 0 {
		return Percentiles{}
	}
	rank := func(p float64) float64 { return float64(smallest(v, int(math.Ceil(p*float64(len(v))))-1)) }
	return Percentiles{P50: rank(0.50), P99: rank(0.99)}
}

// smallest returns what stands at index n of v in order, by Hoare's quickselect: an evaluation
// asks two ranks of a hundred thousand latencies, on one core, between runs that use all.
func smallest(v []float32, n int) float32 {
	for low, high := 0, len(v)-1; low < high; {
		pivot := v[low+(high-low)/2]
		i, j := low, high
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case n <= j:
			high = j
		case n >= i:
			low = i
		default:
			return v[n]
		}
	}
	return v[n]
}

// Versus compares how a policy did with another one on the same workload and seeds.
type Versus struct {
	Policy string `json:"policy"`
	// Utility is the policy's less the other's, paired by seed.
	Utility Interval `json:"utility"`
}

// compare fills in, for each policy that is no rule, the difference to the rule
// that did best on the workload. That rule is chosen by the same runs, which
// favours it.
func compare(results []Result) {
	rules := map[string][]Score{} // by workload
	for i := range results {
		if r := &results[i]; r.Rule {
			rules[r.Workload] = append(rules[r.Workload], Score{Policy: r.Policy, Runs: r.Runs})
		}
	}
	for i := range results {
		r := &results[i]
		if r.Rule {
			continue
		}
		if v, err := Over(Score{Policy: r.Policy, Runs: r.Runs}, rules[r.Workload]); err == nil {
			r.BestRule = &Versus{Policy: v.Rule, Utility: v.Margin}
		}
	}
}
