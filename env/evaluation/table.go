package evaluation

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table writes a report's rows as text. Columns whose values no row has are left out.
type table struct {
	*tabwriter.Writer
	variants   []string
	deadlines  []string // kinds of deadlines
	compared   bool     // with the best rule
	objectives []Objective
	asServed   bool
}

func newTable(r *Report, w io.Writer) *table {
	t := &table{
		Writer: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), deadlines: r.deadlineKinds(), objectives: r.Objectives(), asServed: r.AsServed(),
		compared: slices.ContainsFunc(r.Results, func(x Result) bool { return x.BestRule != nil }),
	}
	for _, v := range r.Variants {
		t.variants = append(t.variants, v.Name)
	}
	return t
}

func (t *table) header() {
	fmt.Fprintf(t, "WORKLOAD\tPOLICY\tUTILITY (95 %%)\tDEADLINES\tWINDOWS ≥ 1.00/.99/.98/.96/.94\t%s\tTPOT p50/p99\tTTFT p50/p99", strings.Join(t.variants, "/"))
	for _, kind := range t.deadlines {
		fmt.Fprintf(t, "\t%s", strings.ToUpper(strings.ReplaceAll(kind, "_", " ")))
	}
	switch {
	case t.compared && len(t.objectives) > 0:
		fmt.Fprint(t, "\tUTILITY OVER THE BEST RULE (95 %, paired)")
	case t.compared:
		fmt.Fprint(t, "\tOVER THE BEST RULE (95 %, paired)")
	}
	for _, o := range t.objectives {
		fmt.Fprintf(t, "\t%v (95 %%)", o)
	}
	if t.asServed {
		fmt.Fprint(t, "\tAS SERVED")
	}
	fmt.Fprintln(t)
}

func (t *table) row(x Result) {
	var windows, share []string
	for _, level := range WindowLevels {
		windows = append(windows, fmt.Sprintf("%.0f", x.Windows[LevelName(level)]))
	}
	for _, v := range t.variants {
		share = append(share, fmt.Sprintf("%.0f%%", 100*x.Share[v]))
	}
	fmt.Fprintf(t, "%s\t%s\t%.3f (%.3f–%.3f)\t%.1f%%\t%s\t%s\t%.0f/%.0f ms\t%.0f/%.0f ms",
		x.Workload, x.Policy, x.Utility.Mean, x.Utility.Lo, x.Utility.Hi, 100*x.DeadlineMet.Mean,
		strings.Join(windows, " "), strings.Join(share, "/"), x.TPOT.P50, x.TPOT.P99, x.TTFT.P50, x.TTFT.P99)
	for _, kind := range t.deadlines {
		fmt.Fprintf(t, "\t%s", x.Deadlines.share(kind))
	}
	if b := x.BestRule; b != nil {
		fmt.Fprintf(t, "\t%+.4f (%+.4f to %+.4f), %s", b.Utility.Mean, b.Utility.Lo, b.Utility.Hi, b.Policy)
	} else if t.compared {
		fmt.Fprint(t, "\t")
	}
	for _, o := range t.objectives {
		value := x.By(o).Value
		fmt.Fprintf(t, "\t%.3f (%.3f–%.3f)", value.Mean, value.Lo, value.Hi)
	}
	if x.Served != nil {
		fmt.Fprintf(t, "\t%v", x.Served)
	}
	fmt.Fprintln(t)
}
