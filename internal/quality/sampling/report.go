package sampling

import (
	"fmt"
	"io"

	"gearshift/internal/calibrate/loadgen"
)

// Report counts the labels, failures and tokens of a run.
type Report struct {
	// Prompts were to be asked; Labelled have a label now, Failed were given up.
	Prompts, Labelled, Failed int
	// Fault is why the last one failed.
	Fault error
	// Tokens of prompts and answers were used, by what engines state.
	Tokens int
	// OutOfBudget reports that the run ended before the budget would have been exceeded.
	OutOfBudget bool
	// Compared pairs of answers were shown to the judge, whose verdicts on Disagreed of them
	// depended on the order.
	Compared, Disagreed int
	Sizes               []SizeReport
}

// SizeReport is of the answers of one size.
type SizeReport struct {
	Name string
	// Answers came, of which Cut were cut at the bound on tokens, and Empty have no text.
	Answers, Cut, Empty int
	sum                 float64 // of the scores
}

func newReport(c Config) Report {
	r := Report{Prompts: len(c.Prompts)}
	for _, s := range c.Sizes {
		r.Sizes = append(r.Sizes, SizeReport{Name: s.Name})
	}
	return r
}

// add counts an answer.
func (s *SizeReport) add(a loadgen.Completion) {
	s.Answers++
	if a.Cut {
		s.Cut++
	}
	if a.Text == "" {
		s.Empty++
	}
}

// Left returns the number of prompts that were not asked.
func (r *Report) Left() int { return r.Prompts - r.Labelled - r.Failed }

// Write prints the report.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "labelled %d of %d prompts with %d tokens\n", r.Labelled, r.Prompts, r.Tokens)
	for _, s := range r.Sizes {
		if r.Labelled > 0 {
			fmt.Fprintf(w, "  %s: mean score %.3f\n", s.Name, s.sum/float64(r.Labelled))
		}
	}
	for _, s := range r.Sizes {
		if s.Cut > 0 {
			fmt.Fprintf(w, "note: %d of %d answers of %s were cut at --max-tokens; a higher bound may score them better\n", s.Cut, s.Answers, s.Name)
		}
		if s.Empty > 0 {
			fmt.Fprintf(w, "note: %d of %d answers of %s have no text\n", s.Empty, s.Answers, s.Name)
		}
	}
	if r.Compared > 0 {
		fmt.Fprintf(w, "the judge decided otherwise with the answers turned on %d of %d pairs, which count as ties\n", r.Disagreed, r.Compared)
	}
	if r.Failed > 0 {
		fmt.Fprintf(w, "skipped %d of %d prompts, which failed, the last with: %v; the same command tries them again\n", r.Failed, r.Prompts, r.Fault)
	}
	if r.OutOfBudget {
		fmt.Fprintf(w, "stopped by --budget-tokens with %d prompts left; the same command goes on with them\n", r.Left())
	}
}
