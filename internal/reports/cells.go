package reports

import (
	"math"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
)

// Cell shows an interval.
func Cell(i evaluation.Interval) report.Cell { return report.Interval(i.Mean, i.Lo, i.Hi) }

// Mean shows the mean of values by seed.
func Mean(values []float64) report.Cell { return Cell(evaluation.Bootstrap(values)) }

// Beside shows an interval and the paper's value; 0 is none.
func Beside(i evaluation.Interval, paper float64) report.Cell {
	if paper == 0 {
		paper = math.NaN()
	}
	return report.BesideInterval(i.Mean, i.Lo, i.Hi, paper)
}

// Less returns by how much a is above b, paired by seed.
func Less(a, b []float64) evaluation.Interval {
	i, err := evaluation.Paired(a, b)
	if err != nil {
		panic(err) // settings that are compared have the same seeds
	}
	return i
}

// Scaled returns an interval times a factor.
func Scaled(i evaluation.Interval, by float64) evaluation.Interval {
	return evaluation.Interval{Mean: by * i.Mean, Lo: by * i.Lo, Hi: by * i.Hi}
}

// Values returns a quantity of each run.
func Values[R, Q any](runs []R, of func(R) Q) []Q {
	list := make([]Q, len(runs))
	for i, r := range runs {
		list[i] = of(r)
	}
	return list
}
