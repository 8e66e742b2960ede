package besteffort

import (
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training/policies"
)

// comparison returns the columns of a policy next to the best of some others, which are
// called by that name; decimals are those of the difference.
func comparison(other string, decimals int) []report.Column {
	return []report.Column{
		report.IntervalColumn("policy", "Policy", "", 3), report.TextColumn("best", "Best "+other), report.IntervalColumn(other, "Its utility", "", 3),
		report.IntervalColumn("difference", "Paired difference", "", decimals),
	}
}

// compared returns the cells of those columns.
func compared(own evaluation.Result, ref string, best evaluation.Result) []report.Cell {
	return []report.Cell{reports.Cell(own.Utility), report.Text(ref), reports.Cell(best.Utility), reports.Cell(paired(own, best))}
}

// utilityColumns returns those of the utilities on all workloads.
func utilityColumns(first string) []report.Column {
	return []report.Column{report.TextColumn("policy", first), report.IntervalColumn("u1", "u1", "", 3), report.IntervalColumn("u2", "u2", "", 3), report.IntervalColumn("stable", "Stable sweep", "", 3)}
}

// utilityRow returns the cells of those columns.
func utilityRow(label string, all rows, ref string) []report.Cell {
	row := []report.Cell{report.Text(label)}
	for _, name := range policies.JudgedBy {
		row = append(row, reports.Cell(all[[2]string{ref, name}].Utility))
	}
	return row
}
