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

// heldOut returns the scores of each example by a calibration on the other folds, by example and
// column. One on all of them would be true of each example by having seen its label.
func (m *Regression) heldOut(examples []Example, logits [][MostColumns]float32, folds []int, count int) [][]float64 {
	held := make([][]float64, len(examples))
	for fold := range count {
		var others []Example
		var known [][MostColumns]float32
		for i := range examples {
			if folds[i] != fold {
				others, known = append(others, examples[i]), append(known, logits[i])
			}
		}
		part := &Regression{columns: slices.Clone(m.columns)}
		part.calibrate(others, known)
		part.bin(others, known)
		for i := range examples {
			if folds[i] != fold {
				continue
			}
			for c := range part.columns {
				held[i] = append(held[i], part.columns[c].calibrated(logits[i][c]))
			}
		}
	}
	return held
}

// judged is a prediction out of fold, and what it turned out to be.
type judged struct{ score, label float64 }

// bin sets each column's bins: straight lines between few knots, on which the scores out of
// fold are true where one slope for all is not enough, and how far below a score the true mean
// of like predictions may lie. A column without labels gets none.
func (m *Regression) bin(examples []Example, logits [][MostColumns]float32) {
	for c := range m.columns {
		col := &m.columns[c]
		var list []judged
		for i := range examples {
			if y := examples[i].Scores[c]; y == y {
				list = append(list, judged{col.calibrated(logits[i][c]), float64(y)})
			}
		}
		if len(list) == 0 {
			continue
		}
		slices.SortFunc(list, func(a, b judged) int { return cmp.Compare(a.score, b.score) })
		n := min(mostBins, max(1, len(list)/leastInBin))
		bins := make([]bin, n)
		for b := range bins {
			bins[b].knot(list[b*len(list)/n : (b+1)*len(list)/n])
		}
		monotone(bins)
		for b := range bins {
			bins[b].is = (1-slope)*bins[b].is + slope*bins[b].at
		}
		col.bins = bins
		col.floor = 1
		for b := range bins {
			bins[b].bound(list[b*len(list)/n:(b+1)*len(list)/n], col)
		}
	}
}

// slope is the least one between knots. Were it 0, many prompts would have the same score, and a
// small change of the weights would move all of them at once.
const slope = 0.2

// prior counts the labels, each as predicted, that a knot begins with.
const prior = 25

// knot sets the place of the bin's knot. Few labels leave it near the predicted score.
func (b *bin) knot(in []judged) {
	var score, label float64
	for _, p := range in {
		score, label = score+p.score, label+p.label
	}
	n := float64(len(in))
	b.at, b.is = float32(score/n), float32((label+prior*score/n)/(n+prior))
}

// monotone replaces the knots by the nearest that nowhere fall: each is the largest, over where a
// run of knots begins, of the least mean of a run that contains it.
func monotone(bins []bin) {
	was := slices.Clone(bins)
	for i := range bins {
		for first := 0; first <= i; first++ {
			least, sum := float32(math.Inf(1)), float32(0)
			for k, b := range was[first:] {
				if sum += b.is; first+k >= i {
					least = min(least, sum/float32(k+1))
				}
			}
			if first == 0 || least > bins[i].is {
				bins[i].is = least
			}
		}
	}
}

// bound sets the bin's range and lower bound. A score between 0 and 1 varies no more than one
// that is either; two successes and two failures more keep a bin of equal labels from being
// certain.
func (b *bin) bound(in []judged, col *column) {
	var score, label float64
	for _, p := range in {
		score, label = score+col.last(p.score), label+p.label
	}
	n := float64(len(in))
	mean := (label + 2) / (n + 4)
	low := mean - 1.96*math.Sqrt(mean*(1-mean)/(n+4))
	b.upTo, b.drop = float32(col.last(in[len(in)-1].score)), float32(max(0, score/n-low))
	col.floor = min(col.floor, float32(max(0, low)))
}
