package steady

import (
	"fmt"
	"math"
	"slices"

	"gearshift/env/fit"
)

const (
	// Misfit is the median error of a kind of cells above which the model does not
	// fit, and FarOff that of the worst of them.
	Misfit, FarOff = 0.10, 0.35
	// leastExplained of the variance of the times' logarithm.
	leastExplained = 0.9
)

// judge fills in how well the model explains the cells.
func (f *Fitted) judge() {
	for i := range f.Cells {
		f.Cells[i].Predicted = predict(&f.Profile, &f.Cells[i].Sample)
	}
	f.Explained = explained(f.Cells)
	for _, kind := range Kinds {
		of := slices.DeleteFunc(slices.Clone(f.Cells), func(c Cell) bool { return c.Kind() != kind })
		if len(of) == 0 {
			continue
		}
		q := quality(kind, of)
		f.Quality = append(f.Quality, q)
		f.Faults = append(f.Faults, Faults(kind, &q.Off)...)
	}
	if f.Explained < leastExplained {
		f.Faults = append(f.Faults, fmt.Sprintf("the model explains %.0f %% of the variance of the times, less than %.0f %%", 100*f.Explained, 100*leastExplained))
	}
}

// Fits reports whether the model fits.
func (f *Fitted) Fits() bool { return len(f.Faults) == 0 }

// Faults are at most one: that the model does not fit the loads of a kind, or is far off from one.
func Faults(kind string, o *fit.Off) []string {
	switch {
	case o.Median > Misfit:
		return []string{fmt.Sprintf("%s: the median error is %.0f %%, above %.0f %%; worst is %s, predicted %+.0f %%", kind, 100*o.Median, 100*Misfit, o.Worst, 100*o.WorstBy)}
	case math.Abs(o.WorstBy) > FarOff:
		return []string{fmt.Sprintf("%s: %s is predicted %+.0f %% off", kind, o.Worst, 100*o.WorstBy)}
	}
	return nil
}

func quality(kind string, cells []Cell) Quality {
	q := Quality{Kind: kind, Cells: len(cells), R2: explained(cells)}
	q.Off = fit.OffBy(len(cells), func(i int) (string, float64) { return cells[i].Cell, cells[i].Error() })
	if !cells[0].Prefill {
		q.BySequences = bySequences(cells)
	}
	return q
}

func bySequences(cells []Cell) map[int]float64 {
	errors := map[int][]float64{}
	for i := range cells {
		n := cells[i].Sequences
		errors[n] = append(errors[n], cells[i].Error())
	}
	medians := map[int]float64{}
	for n, list := range errors {
		medians[n] = fit.Quantile(list, 0.5)
	}
	return medians
}

// explained is [fit.Explained] of the cells' times.
func explained(cells []Cell) float64 {
	return fit.Explained(len(cells), func(i int) (measured, predicted float64) { return cells[i].MS, cells[i].Predicted })
}
