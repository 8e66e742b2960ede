package evaluation

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
)

// DeadlineKinds are the names of the deadlines that a request may have, in the order of
// [fleet.Deadlines].
var DeadlineKinds = [...]string{"per_token", "first_token", "total"}

// Deadlines is how a policy's answers met each kind of deadline.
type Deadlines struct {
	// Met is the share of the requests with a deadline of the kind that met it, by
	// [DeadlineKinds]; a kind that no request has is not there.
	Met map[string]Interval `json:"met"`
	// All is the share that met all of theirs, run by run, and Runs those of each kind, in
	// the order of the seeds: for comparisons of policies by seed. Runs without such a
	// request are left out.
	All  []float64            `json:"all_by_seed"`
	Runs map[string][]float64 `json:"met_by_seed"`
	// NextToken is the time from each token to the next after the first, the mean of an
	// answer: (finish − first token) ÷ (output tokens − 1).
	NextToken Percentiles `json:"next_token_ms"`
}

// met counts, by kind, the requests with such a deadline, and those of them that met it.
type met struct {
	asked, held [len(DeadlineKinds)]int
	more        bool // some request has one that is not per token
	next        []float32
}

func (m *met) add(o *env.Outcome, t *fleet.Task) {
	d, took := o.Deadlines(t), o.Took()
	for i, x := range [...][2]time.Duration{{took.PerToken, d.PerToken}, {took.FirstToken, d.FirstToken}, {took.Total, d.Total}} {
		if x[1] <= 0 {
			continue
		}
		m.asked[i]++
		if x[0] <= x[1] && !o.Failed && o.Refused == "" {
			m.held[i]++
		}
	}
	if !d.More() {
		return
	}
	if m.more = true; !o.Failed && o.Refused == "" && o.OutputTokens > 1 {
		m.next = append(m.next, milliseconds(o.Finished-o.FirstToken)/float32(o.OutputTokens-1))
	}
}

// merge adds o.
func (m *met) merge(o *met) {
	for i := range m.asked {
		m.asked[i] += o.asked[i]
		m.held[i] += o.held[i]
	}
	m.more = m.more || o.more
	m.next = append(m.next, o.next...)
}

// deadlines sums up the runs; nil where none has a deadline that is not per token.
func deadlines(runs []tally) *Deadlines {
	if !slices.ContainsFunc(runs, func(r tally) bool { return r.deadlines.more }) {
		return nil
	}
	out := &Deadlines{Met: map[string]Interval{}, Runs: map[string][]float64{}}
	for i, kind := range DeadlineKinds {
		shares, asked := make([]float64, len(runs)), 0
		for k := range runs {
			m := &runs[k].deadlines
			asked += m.asked[i]
			if shares[k] = math.NaN(); m.asked[i] > 0 {
				shares[k] = float64(m.held[i]) / float64(m.asked[i])
			}
		}
		if asked > 0 {
			out.Met[kind], out.Runs[kind] = Bootstrap(shares), slices.DeleteFunc(shares, math.IsNaN)
		}
	}
	var next []float32
	for k := range runs {
		if runs[k].requests > 0 {
			out.All = append(out.All, runs[k].met)
		}
		next = append(next, runs[k].deadlines.next...)
	}
	out.NextToken = percentiles(next)
	return out
}

// share returns the mean of a kind in percent; empty without one.
func (d *Deadlines) share(kind string) string {
	if d == nil {
		return ""
	}
	met, ok := d.Met[kind]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*met.Mean)
}

// deadlineKinds returns those of which the rows have shares.
func (r *Report) deadlineKinds() (kinds []string) {
	for _, kind := range DeadlineKinds {
		if slices.ContainsFunc(r.Results, func(x Result) bool { return x.Deadlines.share(kind) != "" }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
