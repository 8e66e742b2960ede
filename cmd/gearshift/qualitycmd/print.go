package qualitycmd

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gearshift/env/evaluation"
	"gearshift/internal/quality"
)

// printReport prints how each model and each choice between two is predicted, each with an
// empty line after it.
func printReport(w io.Writer, r *quality.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tLABELS\tMEAN SCORE\tLOG LOSS\tOF THE MEAN\tCALIBRATION ERROR")
	for _, c := range r.Columns {
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\n", c.Name, c.Labels, c.Mean, c.LogLoss, c.MeanLoss, c.Error)
	}
	t.Flush()
	fmt.Fprintln(w)
	main := r.Main()
	if main == nil {
		return
	}
	printPairs(w, r, main)
	printCurve(w, main)
}

// printPairs prints the choices between each model and the best one.
func printPairs(w io.Writer, r *quality.Report, main *quality.Pair) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	task, over := "", func(quality.Pair) string { return "" }
	if main.OverTask != nil {
		task, over = "OVER TASK\t", func(p quality.Pair) string { return evaluation.Signed(*p.OverTask) + "\t" }
	}
	fmt.Fprintf(t, "SMALLER\tLARGER\tGAIN (95 %%)\t%sORACLE\tREACHED\n", task)
	others := 0
	for _, p := range r.Pairs {
		if p.Large != main.Large || p.OverTask == nil && main.OverTask != nil {
			others++
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s%+.4f\t%.0f %%\n", p.Small, p.Large, evaluation.Signed(p.Gain), over(p), p.Oracle, 100*p.Reached())
	}
	t.Flush()
	if others > 0 {
		fmt.Fprintf(w, "%d more pairs: --format json\n", others)
	}
	fmt.Fprintln(w)
}

// printedShares are those of the curve that are printed, in steps of it.
var printedShares = []int{2, 5, 10, 15, 18}

// printCurve prints the gain of the main pair at some shares.
func printCurve(w io.Writer, p *quality.Pair) {
	if len(p.Curve) <= quality.Points {
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
