package validation

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"gearshift/env/fit"
)

// Report is what a validation has to say of what is running. The errors at the top
// are over the requests of all runs whose place was given; a policy's choices differ.
type Report struct {
	Scenario string   `json:"scenario"`
	Date     string   `json:"date"`
	Requests int      `json:"requests"`
	EndToEnd *offBy   `json:"e2e_error,omitempty"`
	TTFT     *offBy   `json:"ttft_error,omitempty"`
	TPOT     *offBy   `json:"tpot_error,omitempty"`
	Runs     []Run    `json:"runs"`
	Notes    []string `json:"notes,omitempty"`
}

// offBy is quantiles of the relative absolute error per request.
type offBy struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// Run is one load: what was measured, and what was predicted of it.
type Run struct {
	What     string  `json:"what"`
	Variant  string  `json:"variant,omitempty"`
	Host     string  `json:"host,omitempty"` // of a fleet with several
	Policy   string  `json:"policy,omitempty"`
	Load     float64 `json:"load"`
	Rate     float64 `json:"rate"` // per second, of all variants together
	Requests int     `json:"requests"`
	Refused  int     `json:"refused"`
	Stolen   float64 `json:"stolen,omitempty"` // share of the processors' time that their host gave to others
	TTFT     pair    `json:"ttft_ms"`          // means, as all below
	TPOT     pair    `json:"tpot_ms"`
	EndToEnd pair    `json:"e2e_ms"`
	Pace     pair    `json:"per_token_ms"` // end to end ÷ tokens, as deadlines have it
	Met      pair    `json:"deadline_met"`
	Utility  pair    `json:"utility"`
	// Slowness is the machine's just then, of runs without a router.
	Slowness *slowness `json:"slowness,omitempty"`
	// Share of the requests by variant, of a policy.
	Share map[string]pair `json:"share,omitempty"`

	errors [3][]float64 // end to end, TTFT, TPOT, by request
}

// pair is a figure twice.
type pair struct {
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"`
}

// off is predicted ÷ measured − 1.
func (p pair) off() float64 {
	if p.Measured == 0 {
		return 0
	}
	return p.Predicted/p.Measured - 1
}

// add enters a run, of the requests that the function says, or of all. Slowed is what
// is predicted where the run has a slowness.
func (r *Report) add(run Run, s *sent, predicted, slowed []met, of func(int) bool) {
	run.Refused = s.refused
	var chosen []int
	for i := range s.measured {
		if of == nil || of(i) {
			chosen = append(chosen, i)
		}
	}
	run.Requests = len(chosen)
	mean := func(predicted []met, figure func(*met) float64) (p pair) {
		n := float64(len(chosen))
		for _, i := range chosen {
			p.Measured, p.Predicted = p.Measured+figure(&s.measured[i])/n, p.Predicted+figure(&predicted[i])/n
		}
		return p
	}
	endToEnd := func(m *met) float64 { return m.pace * float64(m.tokens) }
	ttft := func(m *met) float64 { return m.ttft }
	tpot := func(m *met) float64 { return m.tpot }
	run.TTFT, run.TPOT, run.EndToEnd = mean(predicted, ttft), mean(predicted, tpot), mean(predicted, endToEnd)
	run.Pace = mean(predicted, func(m *met) float64 { return m.pace })
	run.Utility = mean(predicted, func(m *met) float64 { return m.utility })
	run.Met = mean(predicted, func(m *met) float64 {
		if m.inTime {
			return 1
		}
		return 0
	})
	if run.Slowness != nil {
		run.Slowness.TPOT, run.Slowness.EndToEnd = mean(slowed, tpot), mean(slowed, endToEnd)
	}
	for k, figure := range []func(*met) float64{endToEnd, ttft, tpot} {
		for _, i := range chosen {
			if measured := figure(&s.measured[i]); measured > 0 {
				run.errors[k] = append(run.errors[k], math.Abs(figure(&predicted[i])/measured-1))
			}
		}
	}
	r.Runs = append(r.Runs, run)
}

// pool reckons the errors over all runs.
func (r *Report) pool() {
	for k, to := range []**offBy{&r.EndToEnd, &r.TTFT, &r.TPOT} {
		var all []float64
		for i := range r.Runs {
			if run := &r.Runs[i]; run.What != Policy {
				all = append(all, run.errors[k]...)
			}
		}
		if len(all) > 0 {
			*to = &offBy{fit.Quantile(all, 0.5), fit.Quantile(all, 0.9)}
		}
	}
	for i := range r.Runs {
		r.Requests += r.Runs[i].Requests
	}
}

// Table prints the report for people.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s: measured, predicted and the difference, means over %d requests\n\n", r.Scenario, r.Date, r.Requests)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tload\treq/s\tn\tTTFT ms\t\t\tTPOT ms\t\t\tend to end ms\t\t\tin time\t\t\tutility\t\tslowness\tTPOT\tend to end, so slowed")
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(t, "%s\t%g\t%.3g\t%d", run.name(), run.Load, run.Rate, run.Requests)
		for _, p := range []pair{run.TTFT, run.TPOT, run.EndToEnd} {
			fmt.Fprintf(t, "\t%.1f\t%.1f\t%+.1f %%", p.Measured, p.Predicted, 100*p.off())
		}
		fmt.Fprintf(t, "\t%.3f\t%.3f\t%+.3f\t%.3f\t%.3f", run.Met.Measured, run.Met.Predicted, run.Met.Predicted-run.Met.Measured, run.Utility.Measured, run.Utility.Predicted)
		if s := run.Slowness; s != nil {
			fmt.Fprintf(t, "\t%.2f, %.2f\t%+.1f %%\t%+.1f %%", s.Before, s.After, 100*s.TPOT.off(), 100*s.EndToEnd.off())
		} else {
			fmt.Fprint(t, "\t\t\t")
		}
		if run.Refused > 0 {
			fmt.Fprintf(t, "\t%d refused", run.Refused)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.EndToEnd != nil {
		fmt.Fprintf(w, "\nby request, but for the policy's, median and p90 of the relative error: end to end %s, TTFT %s, TPOT %s\n", r.EndToEnd, r.TTFT, r.TPOT)
	}
	for _, note := range slices.Compact(r.Notes) {
		fmt.Fprintln(w, "note:", note)
	}
	return nil
}

func (e *offBy) String() string { return fmt.Sprintf("%.1f %% (%.1f %%)", 100*e.Median, 100*e.P90) }

func (run *Run) name() string {
	if run.Policy != "" {
		return "policy " + run.Policy
	}
	name := strings.TrimSpace(run.What + " " + run.Variant)
	if run.Host != "" {
		name += " on " + run.Host
	}
	return name
}
