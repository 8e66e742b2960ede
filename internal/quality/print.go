package quality

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gearshift/env/evaluation"
)

// Write prints how each model and each choice between two is predicted, each with an empty line
// after it.
func (r *Report) Write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tLABELS\tMEAN SCORE\tLOG LOSS\tOF THE MEAN\tCALIBRATION ERROR")
	for _, c := range r.Columns {
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\n", c.Name, c.Labels, c.Mean, c.LogLoss, c.MeanLoss, c.Error)
	}
	t.Flush()
	fmt.Fprintln(w)
	if main := r.Main(); main != nil {
		r.writePairs(w, main)
		main.writeCurve(w)
	}
}

// writePairs prints the choices between each model and the best one.
func (r *Report) writePairs(w io.Writer, main *Pair) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	task, over := "", func(Pair) string { return "" }
	if main.OverTask != nil {
		task, over = "OVER TASK\t", func(p Pair) string { return evaluation.Signed(*p.OverTask) + "\t" }
	}
	fmt.Fprintf(t, "SMALLER\tLARGER\tGAIN (95 %%)\t%sORACLE\tREACHED\n", task)
	others := 0
	for _, p := range r.Pairs {
		if p.Large != main.Large || p.OverTask == nil && main.OverTask != nil {
			others++
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s%+.4f\t%.0f %%\n", p.Small, p.Large, evaluation.Signed(p.Gain), over(p), p.Oracle, 100*p.reached())
	}
	t.Flush()
	if others > 0 {
		fmt.Fprintf(w, "%d more pairs: --format json\n", others)
	}
	fmt.Fprintln(w)
}

// printedShares lists the points of the curve that are printed.
var printedShares = []int{2, 5, 10, 15, 18}

// writeCurve prints the gain at some shares.
func (p *Pair) writeCurve(w io.Writer) {
	if len(p.Curve) <= Points {
		return
	}
	shares, gains, tasks := []string{"SHARE TO " + p.Large}, []string{"gain over random"}, []string{"of the tasks' means"}
	for _, k := range printedShares {
		at := p.Curve[k]
		shares = append(shares, fmt.Sprintf("%.0f %%", 100*at.Share))
		gains = append(gains, fmt.Sprintf("%+.3f", at.Gain.Mean))
		tasks = append(tasks, fmt.Sprintf("%+.3f", at.Task))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(shares, "\t"))
	fmt.Fprintln(t, strings.Join(gains, "\t"))
	if p.OverTask != nil {
		fmt.Fprintln(t, strings.Join(tasks, "\t"))
	}
	t.Flush()
	fmt.Fprintln(w)
}

// writeReliability prints predictions with the mean scores of the prompts that they are of, by range.
func (r *Report) writeReliability(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tPREDICTED → MEAN SCORE (PROMPTS)")
	for _, c := range r.Columns {
		var bins []string
		for _, b := range c.Bins {
			bins = append(bins, fmt.Sprintf("%.2f → %.2f (%d)", b.Predicted, b.Scored, b.Count))
		}
		for i := 0; i < len(bins); i += 4 {
			name := c.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(t, "%s\t%s\n", name, strings.Join(bins[i:min(i+4, len(bins))], ", "))
		}
	}
	t.Flush()
	fmt.Fprintln(w)
}

// Write prints it, with the name of the scenario that the labels were compared with; empty if none.
func (c *Check) Write(w io.Writer, scenario string) {
	if len(c.Seen) > 0 {
		fmt.Fprintf(w, "%s was fitted to %s: these figures flatter it\n\n", c.Predictor, strings.Join(c.Seen, ", "))
	}
	fmt.Fprintf(w, "%s on %d labelled prompts: %.2f sure in the mean, less than half sure of %.0f %%\n\n", c.Predictor, c.Report.Prompts, c.Sure, 100*c.Strange)
	c.Report.Write(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tMEAN SCORE\tIN ITS REPORT")
	for _, d := range c.Mean {
		word := ""
		if d.Drifted {
			word = "\tdiffers by more than chance explains"
		}
		fmt.Fprintf(t, "%s\t%.3f\t%.3f%s\n", d.Name, d.Mean, d.Was, word)
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, text := range c.Scenario {
		fmt.Fprintf(w, "%s: %s\n", scenario, text)
	}
	if scenario != "" && len(c.Scenario) == 0 {
		fmt.Fprintf(w, "%s: every variant has scores, and each declared quality is near the mean score\n", scenario)
	}
	if was := c.Was; was != nil {
		now := c.Report.Pair(was.Small, was.Large)
		word := c.Gain
		switch {
		case word == "unknown":
			word = fmt.Sprintf("unknown, of %d prompts with scores of both", now.Prompts)
		case now.Gain.Hi < 0:
			word += ", and worse than random on these"
		}
		fmt.Fprintf(w, "%s or %s by prompt: %s over random, in its report %s: %s\n", was.Small, was.Large, evaluation.Signed(now.Gain), evaluation.Signed(was.Gain), word)
	}
}
