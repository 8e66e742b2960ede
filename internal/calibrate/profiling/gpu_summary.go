package profiling

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gearshift/env/fit"
)

// Summary returns what follows from the table, as a page of Markdown.
func (g *GPU) Summary() string {
	t := g.Table
	var b strings.Builder
	fmt.Fprintf(&b, "# Measured on %s\n\n%s.\n", t.Machine.Date, MachineWords(t))
	if t.Cut {
		b.WriteString("\nThe measurement was cut: this is what it had until then.\n")
	} else {
		fmt.Fprintf(&b, "\nIt took %.0f s.\n", t.Seconds)
	}
	g.steps(&b)
	g.contention(&b)
	g.quality(&b)
	g.moves(&b)
	if len(t.Notes) > 0 {
		b.WriteString("\n## Left out\n\n")
		for _, words := range t.Notes {
			fmt.Fprintf(&b, "- %s\n", words)
		}
	}
	return b.String()
}

// markdown writes a table.
func markdown(b *strings.Builder, head []string, rows [][]string) {
	b.WriteString("| " + strings.Join(head, " | ") + " |\n" + strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
}

// steps lists the loads alone: measured, and in brackets as the profile has it.
func (g *GPU) steps(b *strings.Builder) {
	b.WriteString("\n## Steps alone, in ms (and by the profile)\n\n")
	var names []string
	for i := range g.Fits {
		for k := range g.Fits[i].loads {
			if l := &g.Fits[i].loads[k]; l.beside == "" && !slices.Contains(names, l.String()) {
				names = append(names, l.String())
			}
		}
	}
	var rows [][]string
	for _, name := range names {
		row := []string{name}
		for i := range g.Fits {
			f, cell := &g.Fits[i], ""
			if k := slices.IndexFunc(f.loads, func(l gpuLoad) bool { return l.beside == "" && l.String() == name }); k >= 0 {
				cell = fmt.Sprintf("%.3g (%.3g)", f.loads[k].ms, f.predicted(&f.loads[k]))
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	markdown(b, append([]string{"load"}, g.Variants()...), rows)
	for i := range g.Fits {
		if f := &g.Fits[i]; f.EagerOverGraph > 0 {
			fmt.Fprintf(b, "\nWith kernels launched one by one, decode steps of %s take %.2f times as long as these CUDA graphs.\n", f.Model, f.EagerOverGraph)
		}
	}
}

func (g *GPU) contention(b *strings.Builder) {
	b.WriteString("\n## Contention\n\n" + g.Verdict() + "\n\n")
	if g.Laws == nil {
		return
	}
	var rows [][]string
	for _, l := range g.Laws.Laws {
		gamma := ""
		if l.Name == fit.Linear {
			gamma = fmt.Sprintf("%.3g (90 %%: %.3g to %.3g)", l.Gamma, l.Interval.Low, l.Interval.High)
		}
		rows = append(rows, []string{
			l.Name, gamma, fmt.Sprintf("%.1f %%", 100*l.Median), fmt.Sprintf("%.1f %%", 100*l.P90), fmt.Sprintf("%s, %+.0f %%", l.Worst, 100*l.WorstBy),
		})
	}
	markdown(b, []string{"law", "γ", "median error", "p90", "worst"}, rows)
}

// Verdict says which law of contention fits, on a line.
func (g *GPU) Verdict() string {
	if g.Laws == nil {
		return "No law of contention: " + g.Unjudged + "."
	}
	best := g.Laws.Best()
	words := best.Name
	if best.Name == fit.Linear {
		words = fmt.Sprintf("%s with γ = %.3g", best.Name, best.Gamma)
	}
	out := fmt.Sprintf("Over %d loads beside busy neighbours, the law that fits best is %s, with a median error of %.1f %%", g.Laws.Cells, words, 100*best.Median)
	if !g.Laws.Fits() {
		out += fmt.Sprintf("; that is above %.0f %%: none of the laws fits", 100*fit.ContentionMisfit)
	}
	if len(g.Laws.Undecided) > 0 {
		out += "; the loads do not distinguish it from " + strings.Join(g.Laws.Undecided, " and ")
	}
	return out + "."
}

func (g *GPU) quality(b *strings.Builder) {
	b.WriteString("\n## How far the profiles lie from the steps\n\n")
	var rows [][]string
	for i := range g.Fits {
		for _, q := range g.Fits[i].Quality {
			rows = append(rows, []string{
				g.Fits[i].Model, q.Kind, fmt.Sprint(q.Loads), fmt.Sprintf("%.1f %%", 100*q.Median), fmt.Sprintf("%.1f %%", 100*q.P90), fmt.Sprintf("%s, %+.0f %%", q.Worst, 100*q.WorstBy),
			})
		}
	}
	markdown(b, []string{"model", "what", "loads", "median error", "p90", "worst"}, rows)
}

func (g *GPU) moves(b *strings.Builder) {
	var rows [][]string
	for _, name := range g.Variants() {
		for _, m := range movesOf(g.Table, name) {
			whole := ""
			if m.WholeMS > 0 {
				whole = fmt.Sprintf("%.4g", m.WholeMS)
			}
			rows = append(rows, []string{name, m.What, fmt.Sprintf("%.3g", float64(m.Bytes)/1e9), fmt.Sprintf("%.4g", m.MS), fmt.Sprintf("%.3g", m.GBs), whole})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n## Weights on the move\n\n")
		markdown(b, []string{"model", "what", "GB", "ms", "GB/s", "all of the weights at that rate, ms"}, rows)
	}
}

// Warn says in words which parts of the profiles are not to be trusted.
func (g *GPU) Warn(stderr io.Writer) {
	for i := range g.Fits {
		f := &g.Fits[i]
		for _, fault := range f.Faults {
			fmt.Fprintf(stderr, "gearshift: warning: the model does not fit %s: %s\n", f.Model, fault)
		}
		if len(f.Held) > 0 {
			fmt.Fprintf(stderr, "gearshift: warning: the measurement hardly determines %s of %s\n", strings.Join(f.Held, ", "), f.Model)
		}
	}
	if g.Table.Cut {
		fmt.Fprintf(stderr, "gearshift: warning: %s is of a run that was cut\n", g.Table.Name)
	}
}
