package report

import (
	"math"

	"gonum.org/v1/plot/plotter"
)

// runs returns the stretches of a series without a gap: the points of the values,
// at the series' X, that are there. A step is drawn out into its corners.
func (s *Series) runs(values []float64) []plotter.XYs {
	var runs []plotter.XYs
	var run plotter.XYs
	for i, v := range values {
		if math.IsNaN(v) {
			runs, run = ended(runs, run), nil
			continue
		}
		if s.Style == Step && len(run) > 0 {
			run = append(run, plotter.XY{X: s.X[i], Y: run[len(run)-1].Y})
		}
		run = append(run, plotter.XY{X: s.X[i], Y: v})
	}
	return ended(runs, run)
}

func ended(runs []plotter.XYs, run plotter.XYs) []plotter.XYs {
	if len(run) == 0 {
		return runs
	}
	return append(runs, run)
}

// bands returns the areas between Lo and Hi, one for each stretch without a gap:
// along Lo, and back along Hi.
func (s *Series) bands(log bool) []plotter.XYs {
	lo, hi := make([]float64, len(s.Lo)), make([]float64, len(s.Hi))
	for i := range lo {
		lo[i], hi[i] = s.Lo[i], s.Hi[i]
		if math.IsNaN(lo[i] + hi[i]) {
			lo[i], hi[i] = math.NaN(), math.NaN()
		}
	}
	lower, upper := s.runs(lo), s.runs(hi)
	var areas []plotter.XYs
	for i := range lower {
		area, back := thinned(lower[i], log), thinned(upper[i], log)
		for j := len(back) - 1; j >= 0; j-- {
			area = append(area, back[j])
		}
		areas = append(areas, area)
	}
	return areas
}

// places is how many points along X a drawn line can show apart.
const places = 800

// thinned returns the line without the points that a page cannot show: of those at
// one of its [places], the first, the lowest, the highest and the last are kept,
// so that no peak is lost. The points are in order of X.
func thinned(line plotter.XYs, log bool) plotter.XYs {
	along := func(i int) float64 {
		if log {
			return math.Log(line[i].X)
		}
		return line[i].X
	}
	first, width := along(0), along(len(line)-1)-along(0)
	if len(line) <= 4*places || width == 0 {
		return append(plotter.XYs(nil), line...)
	}
	slice := func(i int) int { return int((along(i) - first) / width * (places - 1)) }
	var kept plotter.XYs
	for from := 0; from < len(line); {
		to, low, high := from, from, from
		for to < len(line) && slice(to) == slice(from) {
			if line[to].Y < line[low].Y {
				low = to
			}
			if line[to].Y > line[high].Y {
				high = to
			}
			to++
		}
		last := -1
		for _, i := range []int{from, min(low, high), max(low, high), to - 1} {
			if i > last {
				kept, last = append(kept, line[i]), i
			}
		}
		from = to
	}
	return kept
}
