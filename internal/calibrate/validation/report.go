package validation

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gearshift/env/fit"
	"gearshift/internal/calibrate/profiling"
)

// Report is what a validation has to say of what is running. The errors at the top
// are over the requests of all runs whose place was given; a policy's choices differ.
type Report struct {
	Scenario string     `json:"scenario"`
	Date     string     `json:"date"`
	Requests int        `json:"requests"`
	EndToEnd *fit.Error `json:"e2e_error,omitempty"`
	TTFT     *fit.Error `json:"ttft_error,omitempty"`
	TPOT     *fit.Error `json:"tpot_error,omitempty"`
	Runs     []Run      `json:"runs"`
	Notes    []string   `json:"notes,omitempty"`
	// Profiles are those that the turns measured, by variant.
	Profiles []*profiling.Profile `json:"-"`
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
	PerToken pair    `json:"per_token_ms"` // end to end ÷ tokens, as deadlines have it
	Met      pair    `json:"deadline_met"`
	Utility  pair    `json:"utility"`
	// Slowness is the machine's just then, of runs without a router.
	Slowness *slowness `json:"slowness,omitempty"`
	// Share of the requests by variant, of a policy.
	Share map[string]pair `json:"share,omitempty"`

	// Turns are the turns of a validation that has several.
	Turns []turn `json:"turns,omitempty"`

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

// pool reckons the errors over all runs.
func (r *Report) pool() {
	for k, to := range []**fit.Error{&r.EndToEnd, &r.TTFT, &r.TPOT} {
		var all []float64
		for i := range r.Runs {
			if run := &r.Runs[i]; run.What != Policy {
				all = append(all, run.errors[k]...)
			}
		}
		if len(all) > 0 {
			off := fit.Of(all)
			*to = &off
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
		for k, p := range []pair{run.TTFT, run.TPOT, run.EndToEnd} {
			fmt.Fprintf(t, "\t%.1f\t%.1f\t%+.1f %%", p.Measured, p.Predicted, 100*p.off())
			if k > 0 {
				fmt.Fprint(t, run.give([]func(*turn) pair{1: (*turn).tpot, 2: (*turn).endToEnd}[k]))
			}
		}
		fmt.Fprintf(t, "\t%.3f\t%.3f\t%+.3f\t%.3f\t%.3f", run.Met.Measured, run.Met.Predicted, run.Met.Predicted-run.Met.Measured, run.Utility.Measured, run.Utility.Predicted)
		if s := run.Slowness; s != nil {
			fmt.Fprintf(t, "\t%v\t%+.1f %%%s\t%+.1f %%%s", s, 100*s.TPOT.off(), run.give((*turn).slowedTPOT), 100*s.EndToEnd.off(), run.give((*turn).slowedEndToEnd))
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
		fmt.Fprintf(w, "\nby request, except the policy's, median and p90 of the relative error: end to end %s, TTFT %s, TPOT %s\n", r.EndToEnd, r.TTFT, r.TPOT)
	}
	for _, note := range slices.Compact(r.Notes) {
		fmt.Fprintln(w, "note:", note)
	}
	return nil
}

// give returns the standard error of an error, in a table; empty without turns.
func (run *Run) give(of func(*turn) pair) string {
	if len(run.Turns) == 0 {
		return ""
	}
	return fmt.Sprintf(" ± %.1f", 100*within(run.Turns, of))
}

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
