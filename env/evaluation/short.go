package evaluation

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// shortWidth is how many columns [Report.WriteShort] takes at most.
const shortWidth = 100

// leastName is the least room for a policy's name in a short table, in columns.
const leastName = 30

// WriteShort renders the report for people, in 100 columns: the whole workloads alone, and
// the verdicts. Names that do not fit end in "…"; all of them are in the table of
// [Report.Write].
func (r *Report) WriteShort(w io.Writer) error {
	var b strings.Builder
	if r.Tuning != nil {
		r.Tuning.writeShort(&b)
		b.WriteByte('\n')
	}
	rows := [][]string{{"WORKLOAD", "POLICY", "UTILITY (95 %)", "IN TIME", strings.Join(r.variantNames(), "/")}}
	for _, x := range byWorkload(slices.Concat(r.Results, r.Opponents)) {
		if x.Group == "" {
			rows = append(rows, r.shortRow(x))
		}
	}
	writeFitted(&b, rows, 1)
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "\n%s on %s:\n", fit(v.Policy, shortWidth/2), fit(Together(v.Workloads), shortWidth/2-5))
		line := v.String()
		if utf8.RuneCountInString(line) > shortWidth-2 {
			line = strings.Replace(line, ", by ", ",\n  by ", 1)
		}
		fmt.Fprintf(&b, "  %s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) variantNames() (names []string) {
	for _, v := range r.Variants {
		names = append(names, v.Name)
	}
	return names
}

func (r *Report) shortRow(x Result) []string {
	var share []string
	for _, v := range r.Variants {
		share = append(share, fmt.Sprintf("%.0f", 100*x.Share[v.Name]))
	}
	return []string{
		fitEnd(x.Workload, shortWidth/4), x.Policy, fmt.Sprintf("%.3f (%.3f–%.3f)", x.Utility.Mean, x.Utility.Lo, x.Utility.Hi),
		fmt.Sprintf("%.1f%%", 100*x.DeadlineMet.Mean), strings.Join(share, "/") + " %",
	}
}

func (r *TuningReport) writeShort(b *strings.Builder) {
	fmt.Fprintf(b, "Tuned on %d %s of %s:\n", r.Seeds, r.On, strings.Join(r.Workloads, ", "))
	rows := [][]string{{"RULE", "SCORE", "POINTS"}}
	for _, best := range BestFirst(r.Best) {
		rows = append(rows, []string{best.Policy, fmt.Sprintf("%.4f", best.Score), fmt.Sprint(best.Trials)})
	}
	writeFitted(b, rows, 0)
	b.WriteString("They are in the order that evaluation.rules wants: the best first.\n")
}

// BestFirst orders rules by their scores.
func BestFirst(list []Best) []Best {
	ordered := slices.Clone(list)
	slices.SortStableFunc(ordered, func(a, b Best) int { return cmp.Compare(b.Score, a.Score) })
	return ordered
}

// writeFitted writes a table of at most shortWidth columns, the first row of which is the
// header. The column at the index has what room the others leave. Where that is too little,
// the header of the last column is cut; where it is below leastName, the last columns are
// left out.
func writeFitted(b *strings.Builder, rows [][]string, elastic int) {
	last := len(rows[0]) - 1
	room := func(columns int) int {
		left := shortWidth
		for c := range columns {
			if c != elastic {
				left -= widest(rows, c) + 2
			}
		}
		return left
	}
	if body := widest(rows[1:], last); last != elastic && room(last+1) < widest(rows, elastic) {
		rows[0][last] = fit(rows[0][last], max(body, 8))
	}
	columns := last + 1
	for columns > elastic+2 && room(columns) < leastName {
		columns--
	}
	name := min(widest(rows, elastic), max(room(columns), leastName))
	for _, row := range rows {
		var line strings.Builder
		for c, cell := range row[:columns] {
			width := widest(rows, c)
			if c == elastic {
				width, cell = name, fit(cell, name)
			}
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

// widest is the width of a column.
func widest(rows [][]string, column int) (width int) {
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	return width
}

// fit cuts what is wider than so many columns.
func fit(text string, columns int) string {
	if runes := []rune(text); len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return text
}

// fitEnd is fit for what tells most at its end, such as a file's path.
func fitEnd(text string, columns int) string {
	if runes := []rune(text); len(runes) > columns {
		return "…" + string(runes[len(runes)-columns+1:])
	}
	return text
}
