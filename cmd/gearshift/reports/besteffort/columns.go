package besteffort

import (
	"gearshift/cmd/gearshift/policies"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
)

// text returns a column of words.
func text(key, title string) report.Column {
	return report.Column{Key: key, Title: title, Kind: report.KindText}
}

// number returns a column of numbers with so many decimals.
func number(key, title, unit string, decimals int) report.Column {
	return report.Column{Key: key, Title: title, Unit: unit, Kind: report.KindNumber, Decimals: decimals}
}

// ranged returns a column of means with their intervals.
func ranged(key, title, unit string, decimals int) report.Column {
	return report.Column{Key: key, Title: title, Unit: unit, Kind: report.KindInterval, Decimals: decimals}
}

// besides returns a column of our numbers next to the paper's.
func besides(key, title, unit string, decimals int) report.Column {
	return report.Column{Key: key, Title: title, Unit: unit, Kind: report.KindBeside, Decimals: decimals}
}

// comparison returns the columns of a policy next to the best of some others, which are
// called by that name; decimals are those of the difference.
func comparison(other string, decimals int) []report.Column {
	return []report.Column{
		ranged("policy", "Policy", "", 3), text("best", "Best "+other), ranged(other, "Its utility", "", 3),
		ranged("difference", "Paired difference", "", decimals),
	}
}

// compared returns the cells of those columns.
func compared(own evaluation.Result, ref string, best evaluation.Result) []report.Cell {
	return []report.Cell{interval(own.Utility), report.Text(ref), interval(best.Utility), interval(paired(own, best))}
}

// utilityColumns returns those of the utilities on all workloads.
func utilityColumns(first string) []report.Column {
	return []report.Column{text("policy", first), ranged("u1", "u1", "", 3), ranged("u2", "u2", "", 3), ranged("stable", "Stable sweep", "", 3)}
}

// utilityRow returns the cells of those columns.
func utilityRow(label string, all rows, ref string) []report.Cell {
	row := []report.Cell{report.Text(label)}
	for _, name := range policies.JudgedBy {
		row = append(row, interval(all[[2]string{ref, name}].Utility))
	}
	return row
}
