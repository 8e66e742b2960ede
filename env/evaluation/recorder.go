package evaluation

import (
	"math"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/streams"
	"gearshift/router/fleet"
)

// WindowSize is how many requests the running mean of the paper's tables spans;
// windows overlap, with stride 1 (LBE-22).
const WindowSize = 20

// WindowLevels are the shares of peak performance that the tables count.
var WindowLevels = [...]float64{1.00, 0.99, 0.98, 0.96, 0.94}

// levelTolerance forgives the rounding of a sum of 20 rewards.
const levelTolerance = 1e-9

// tally is what one episode came to. Where no request came the means and shares
// are NaN.
type tally struct {
	requests int
	utility  float64 // mean per request
	met      float64 // share
	windows  [len(WindowLevels)]float64
	values   []float64 // by objective of the plan, for those that are not mean utility
	share    []float64 // by variant
	ttft     []float32 // ms, of the requests that were answered
	tpot     []float32 // ms per output token, queueing included, of the same
	waits    waits     // as served
	streams  *streams.Result

	deadlines met
}

// recorder gathers the outcomes of an episode, in the memory of the one before.
type recorder struct {
	objectives    []Objective
	due           func(*env.Environment) // called at each decision; may be nil
	judge         []fleet.Task           // may be nil
	table         *fleet.Table
	prompts       *env.Prompts // likewise
	utility, peak []float64    // by decision or, as served, by arrival
	ttft, tpot    []float32
	met           int
	deadlines     met
	chosen        []int // by variant
	served        bool  // requests may wait, and be refused
	waits         waits
	streams       *streams.Result // of clients beside the requests; nil without any
}

// begin forgets the episode before.
func (r *recorder) begin(t *fleet.Table, prompts *env.Prompts) {
	*r = recorder{
		objectives: r.objectives,
		due:        r.due,
		judge:      r.judge,
		table:      t,
		prompts:    prompts,
		utility:    r.utility[:0], peak: r.peak[:0],
		ttft: r.ttft[:0], tpot: r.tpot[:0],
		chosen: make([]int, len(t.Variants)),
	}
}

// task returns the one that answers to a request of that index are judged by.
func (r *recorder) task(i int) *fleet.Task {
	if r.judge != nil {
		return &r.judge[i]
	}
	return &r.table.Tasks[i]
}

func (r *recorder) add(o *env.Outcome) {
	task := r.task(o.Request.Task)
	if r.judge != nil && !o.Failed && o.Refused == "" {
		d, took := o.Deadlines(task), o.Took()
		o.Utility, o.Met = task.Worth(r.prompts.Quality(task, &o.Request, o.Variant), took, d), d.Met(took)
	}
	at := o.Decision
	if r.served {
		at = int(o.Request.ID)
		r.waits.add(o)
	}
	for len(r.utility) <= at {
		r.utility = append(r.utility, 0)
		r.peak = append(r.peak, 0)
	}
	r.utility[at] = o.Utility
	r.peak[at] = task.Peak()
	r.deadlines.add(o, task)
	if o.Refused != "" {
		return
	}
	if !o.Failed { // no answer has come that had a time
		r.ttft = append(r.ttft, milliseconds(o.FirstToken-o.Request.Arrival))
		r.tpot = append(r.tpot, milliseconds(o.Latency()))
	}
	r.chosen[o.Variant]++
	if o.Met {
		r.met++
	}
}

func milliseconds(d time.Duration) float32 { return float32(d) / float32(time.Millisecond) }

func (r *recorder) tally() tally {
	n := float64(len(r.utility))
	out := tally{
		requests: len(r.utility),
		utility:  sum(r.utility) / n,
		met:      float64(r.met) / n,
		windows:  Windows(r.utility, r.peak),
		ttft:     slices.Clone(r.ttft),
		tpot:     slices.Clone(r.tpot),

		deadlines: r.deadlines,
		streams:   r.streams,
	}
	for _, o := range r.objectives {
		out.values = append(out.values, o.Value(r.utility, r.peak))
	}
	for _, c := range r.chosen {
		out.share = append(out.share, float64(c)/n)
	}
	out.waits = r.waits
	out.waits.over(n)
	return out
}

// by returns the value by the objective of an index; NaN where no request came.
func (r *tally) by(objective int) float64 {
	if r.requests == 0 {
		return math.NaN()
	}
	return r.values[objective]
}

// Windows counts, for each of [WindowLevels], the windows of [WindowSize]
// requests in a row whose utility is at least that share of the peak: what the
// best variant would have earned with no deadline missed (LBE-22).
func Windows(utility, peak []float64) (counts [len(WindowLevels)]float64) {
	for end := WindowSize; end <= len(utility); end++ {
		share := sum(utility[end-WindowSize:end]) / sum(peak[end-WindowSize:end])
		for i, level := range WindowLevels {
			if share >= level-levelTolerance {
				counts[i]++
			}
		}
	}
	return counts
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// group merges the runs of several workloads, seed by seed.
type group struct {
	name    string
	runs    []tally
	members []float64 // by run: how many workloads had a request in it
	speeds  []float64 // by workload
}

func addToGroup(groups []group, name string, runs []tally, speed float64) []group {
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
	if i < 0 {
		groups = append(groups, group{name: name, runs: make([]tally, len(runs)), members: make([]float64, len(runs))})
		i = len(groups) - 1
	}
	g := &groups[i]
	g.speeds = append(g.speeds, speed)
	for s := range runs {
		if runs[s].requests > 0 {
			g.members[s]++
			g.runs[s].merge(&runs[s])
		}
	}
	return groups
}

// merge adds o; every workload of a group weighs the same.
func (r *tally) merge(o *tally) {
	r.requests += o.requests
	r.utility += o.utility
	r.met += o.met
	for i := range r.windows {
		r.windows[i] += o.windows[i]
	}
	if r.values == nil {
		r.values = make([]float64, len(o.values))
	}
	for i := range r.values {
		r.values[i] += o.values[i]
	}
	if r.share == nil {
		r.share = make([]float64, len(o.share))
	}
	for i := range r.share {
		r.share[i] += o.share[i]
	}
	r.ttft = append(r.ttft, o.ttft...)
	r.tpot = append(r.tpot, o.tpot...)
	r.deadlines.merge(&o.deadlines)
	r.waits.merge(&o.waits)
}

// merged divides the sums of shares and means; counts stay sums.
func (g *group) merged() []tally {
	for i := range g.runs {
		r, n := &g.runs[i], g.members[i]
		r.utility /= n
		r.met /= n
		for i := range r.values {
			r.values[i] /= n
		}
		for v := range r.share {
			r.share[v] /= n
		}
		r.waits.over(n)
	}
	return g.runs
}

func (g *group) speed() float64 { return mean(g.speeds) }
