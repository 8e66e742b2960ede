package loadgen

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gearshift/router/fleet"
)

// ReplayReport holds what a replay showed, in the terms of an evaluation's results.
type ReplayReport struct {
	// Requests sent, without those that the end of the replay cut short.
	Requests  int `json:"requests"`
	Completed int `json:"completed"`
	// DurationS is from the start to the last answer.
	DurationS float64 `json:"duration_s"`
	// Utility is the mean over all requests: one without an answer is worth 0.
	Utility float64 `json:"utility"`
	// DeadlineMet is the share of all requests that were answered in time.
	DeadlineMet float64 `json:"deadline_met"`
	// Share of the completed requests that each variant answered.
	Share map[string]float64 `json:"share"`
	// TTFT is the time to the first token.
	TTFT Percentiles `json:"ttft_ms"`
	// TPOT is the whole latency divided by the output tokens, as deadlines
	// have it.
	TPOT Percentiles `json:"tpot_ms"`
	// LateMS is the most that a request left after its time: the client's own
	// inaccuracy.
	LateMS float64        `json:"late_ms"`
	Errors map[string]int `json:"errors"`
	Tasks  []TaskReport   `json:"tasks"`
	// Policy is what routed when the replay began, if the server says so.
	Policy string `json:"-"`
}

// TaskReport is one task's part of a Report.
type TaskReport struct {
	Name        string             `json:"name"`
	Requests    int                `json:"requests"`
	Utility     float64            `json:"utility"`
	DeadlineMet float64            `json:"deadline_met"`
	Share       map[string]float64 `json:"share"`
}

// Percentiles are in milliseconds, over the completed requests.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// outcome is one answer as the client saw it. Times are from the moment at
// which the request was due.
type outcome struct {
	task    int
	variant string
	tokens  int
	first   time.Duration // until some content
	total   time.Duration
	late    time.Duration // by which the request left after it was due
	ended   time.Duration // since the replay's start
	fault   string        // empty: the answer came whole
}

// tally gathers outcomes.
type tally struct {
	table    *fleet.Table
	policy   string // of the router
	tasks    []taskTally
	first    []time.Duration
	perToken []time.Duration
	end      time.Duration // of the last answer, reckoned from the start
	late     time.Duration
	faults   map[string]int
}

type taskTally struct {
	requests, met int
	utility       float64
	variants      map[string]int
}

func newTally(t *fleet.Table) *tally {
	y := &tally{table: t, tasks: make([]taskTally, len(t.Tasks)), faults: map[string]int{}}
	for i := range y.tasks {
		y.tasks[i].variants = map[string]int{}
	}
	return y
}

func (y *tally) answered() int {
	var n int
	for _, t := range y.tasks {
		n += t.requests
	}
	return n
}

func (y *tally) add(o outcome) {
	t, task := &y.tasks[o.task], &y.table.Tasks[o.task]
	t.requests++
	y.late, y.end = max(y.late, o.late), max(y.end, o.ended)
	if o.fault != "" {
		y.faults[o.fault]++
		return
	}
	took, deadlines := fleet.Took(o.first, o.total, o.tokens), task.Deadlines(&fleet.Request{})
	t.variants[o.variant]++
	t.utility += task.Utility(y.table.VariantIndex(o.variant), took, deadlines)
	if deadlines.Met(took) {
		t.met++
	}
	y.first = append(y.first, o.first)
	y.perToken = append(y.perToken, took.PerToken)
}

func (y *tally) report() ReplayReport {
	var sum taskTally
	sum.variants = map[string]int{}
	r := ReplayReport{LateMS: inMilliseconds(y.late), DurationS: y.end.Seconds(), Errors: y.faults, Policy: y.policy}
	for i, t := range y.tasks {
		sum.requests += t.requests
		sum.met += t.met
		sum.utility += t.utility
		for name, n := range t.variants {
			sum.variants[name] += n
			r.Completed += n
		}
		if t.requests > 0 {
			r.Tasks = append(r.Tasks, t.report(y.table.Tasks[i].Name))
		}
	}
	all := sum.report("")
	r.Requests, r.Utility, r.DeadlineMet, r.Share = all.Requests, all.Utility, all.DeadlineMet, all.Share
	r.TTFT, r.TPOT = percentiles(y.first), percentiles(y.perToken)
	return r
}

func (t *taskTally) report(name string) TaskReport {
	r := TaskReport{Name: name, Requests: t.requests, Share: map[string]float64{}}
	var completed int
	for _, n := range t.variants {
		completed += n
	}
	for variant, n := range t.variants {
		r.Share[variant] = float64(n) / float64(completed)
	}
	if t.requests > 0 {
		r.Utility = t.utility / float64(t.requests)
		r.DeadlineMet = float64(t.met) / float64(t.requests)
	}
	return r
}

// percentiles are of the nearest rank: values that occurred.
func percentiles(values []time.Duration) Percentiles {
	slices.Sort(values)
	at := func(p float64) float64 {
		if len(values) == 0 {
			return 0
		}
		rank := int(math.Ceil(p * float64(len(values))))
		return inMilliseconds(values[max(0, rank-1)])
	}
	return Percentiles{P50: at(0.50), P90: at(0.90), P99: at(0.99)}
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Faults lists the kinds of errors and how often each occurred.
func (r ReplayReport) Faults() string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		list = append(list, fmt.Sprintf("%d × %s", r.Errors[kind], kind))
	}
	return strings.Join(list, ", ")
}

// WriteTable prints the report for people.
func (r ReplayReport) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "requests\t%d in %.1f s, %d completed\n", r.Requests, r.DurationS, r.Completed)
	fmt.Fprintf(t, "utility\t%.3f\n", r.Utility)
	fmt.Fprintf(t, "deadlines met\t%.1f %%\n", 100*r.DeadlineMet)
	if r.Completed > 0 { // no answer has no latency, not one of 0 ms
		fmt.Fprintf(t, "time to first token\tp50 %.0f ms\tp90 %.0f ms\tp99 %.0f ms\n", r.TTFT.P50, r.TTFT.P90, r.TTFT.P99)
		fmt.Fprintf(t, "time per token\tp50 %.1f ms\tp90 %.1f ms\tp99 %.1f ms\n", r.TPOT.P50, r.TPOT.P90, r.TPOT.P99)
	}
	fmt.Fprintf(t, "sent late\tby at most %.0f ms\n", r.LateMS)
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(t, "errors: %s\t%d\n", kind, r.Errors[kind])
	}
	variants := slices.Sorted(maps.Keys(r.Share))
	fmt.Fprint(t, "\ntask\trequests\tutility\tin time")
	for _, v := range variants {
		fmt.Fprintf(t, "\t%s", v)
	}
	fmt.Fprintln(t)
	all := TaskReport{Name: "all", Requests: r.Requests, Utility: r.Utility, DeadlineMet: r.DeadlineMet, Share: r.Share}
	for _, task := range append(slices.Clone(r.Tasks), all) {
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.1f %%", task.Name, task.Requests, task.Utility, 100*task.DeadlineMet)
		for _, v := range variants {
			fmt.Fprintf(t, "\t%.1f %%", 100*task.Share[v])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
