package quality

import (
	"cmp"
	"math"
	"slices"
)

// calibrate sets each column's slope and shift so that scores out of fold are true: the
// logistic regression of the labels by the logits.
func (m *Regression) calibrate(examples []Example, logits [][MostColumns]float32) {
	for c := range m.columns {
		slope, shift := 1.0, 0.0
		for range 25 {
			// One step of Newton's method. The prior holds a small sample near 1 and 0.
			ga, gb := 2*(slope-1), 2*shift
			aa, ab, bb := 2.0, 0.0, 2.0
			for i := range examples {
				y, z := float64(examples[i].Scores[c]), float64(logits[i][c])
				if y != y {
					continue
				}
				p := logistic(slope*z + shift)
				w := p * (1 - p)
				ga += (p - y) * z
				gb += p - y
				aa += w * z * z
				ab += w * z
				bb += w
			}
			determinant := aa*bb - ab*ab
			slope -= (bb*ga - ab*gb) / determinant
			shift -= (aa*gb - ab*ga) / determinant
		}
		if slope > 0 && !math.IsInf(slope, 1) && shift == shift {
			m.columns[c].slope, m.columns[c].shift = float32(slope), float32(shift)
		}
	}
}

// measure sets each column's bins: how far below the predicted score the true mean of like
// predictions may lie. A score between 0 and 1 varies no more than one that is either.
func (m *Regression) measure(examples []Example, held [][]float64) {
	type pair struct{ score, label float64 }
	for c := range m.columns {
		var pairs []pair
		for i := range examples {
			if y := examples[i].Scores[c]; y == y {
				pairs = append(pairs, pair{held[i][c], float64(y)})
			}
		}
		slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.score, b.score) })
		m.columns[c].floor = 1
		n := min(mostBins, max(1, len(pairs)/leastInBin))
		for b := range n {
			in := pairs[b*len(pairs)/n : (b+1)*len(pairs)/n]
			var score, label float64
			for _, p := range in {
				score += p.score
				label += p.label
			}
			k := float64(len(in))
			// Two successes and two failures more keep a bin of equal labels from being certain.
			mean := (label + 2) / (k + 4)
			low := mean - 1.96*math.Sqrt(mean*(1-mean)/(k+4))
			m.columns[c].floor = min(m.columns[c].floor, float32(max(0, low)))
			m.columns[c].bins = append(m.columns[c].bins, bin{upTo: float32(in[len(in)-1].score), drop: float32(max(0, score/k-low))})
		}
	}
}
