// Package quality predicts how good the answers of each size to a prompt would be, from the
// prompt's words and form. A [Regression] is logistic, over hashed words and pairs of words,
// with weights for each size; [Fit] makes one from labelled prompts, and a [Learner] goes on
// with labels as they come. A [Predictor] is one bound to a fleet, whose predictions replace
// a task's row of the quality matrix as far as they are sure.
//
// A prompt is predicted in a few microseconds, without allocation. Features contain no
// text: words are hashed under a key, which is secret to the store that the regression is in.
package quality

import (
	"math"
	"sort"
)

// Buckets is the number of buckets into which words and pairs of words are hashed.
const Buckets = 1 << bucketBits

const bucketBits = 15

// wordBits is the logarithm of the size of the set of words that a model has seen.
const wordBits = 19

// MostColumns is the number of sizes that a model can have.
const MostColumns = 12

// Regression predicts scores from 0 to 1 for several sizes, its columns. It is immutable, so it
// may be shared freely.
type Regression struct {
	key     uint64
	labels  int // prompts that it was fitted on
	columns []column
	idf     []uint16 // by bucket, in steps of idfStep
	seen    []uint64
	center  [forms]float32 // the mean of each number of the form
	spread  [forms]float32 // and what its distance from that is multiplied by
	weights []int16        // by bucket and, within that, column; in units of the column's scale
	sparse  float32        // coverage at or below which nothing is known
	dense   float32        // and from which on a prompt is like those that were fitted
	drawn   []uint8        // predictions out of fold of some prompts, by column, in 1/255
}

// column holds the numbers of one size.
type column struct {
	name         string
	count        int     // labels
	mean         float32 // score of the labels
	scale        float32
	bias         float32
	form         [forms]float32
	slope, shift float32 // calibration: σ(slope·logit + shift), then by the bins
	bins         []bin
	floor        float32 // the least lower bound of a bin
}

// bin is a range of predicted scores, with how true they were out of fold.
type bin struct {
	upTo   float32 // the greatest score in it, as calibrated
	drop   float32 // by how much the lower bound of the true mean lies below the predicted one
	at, is float32 // the mean score before the last step of the calibration, and what that makes of it
}

// idfStep is the unit of stored inverse document frequencies.
const idfStep = 1.0 / 4096

// Columns returns the names of the sizes, in the order of scores.
func (m *Regression) Columns() []string {
	names := make([]string, len(m.columns))
	for i := range m.columns {
		names[i] = m.columns[i].name
	}
	return names
}

// Key returns the key that words are hashed under.
func (m *Regression) Key() uint64 { return m.key }

// Labels returns the number of prompts that the model was fitted on.
func (m *Regression) Labels() int { return m.labels }

// Means returns the mean score of the labels by column.
func (m *Regression) Means() []float64 {
	means := make([]float64, len(m.columns))
	for i := range m.columns {
		means[i] = float64(m.columns[i].mean)
	}
	return means
}

// Predict writes the expected score of each column into dst, whose length is that of
// Columns, and returns how sure it is: from 0 for a prompt of words that the model has not
// met, to 1 for one like those that it was fitted on. The scores are calibrated for the
// latter, and not shrunk.
func (m *Regression) Predict(s *Sample, dst []float64) (sure float64) {
	var logits [MostColumns]float32
	m.logits(s, &logits)
	for c := range m.columns {
		col := &m.columns[c]
		dst[c] = col.calibrated(logits[c])
	}
	return m.sureness(m.coverage(s))
}

// calibrated returns the score that a logit stands for.
func (c *column) calibrated(logit float32) float64 {
	return c.last(logistic(float64(c.slope*logit + c.shift)))
}

// last is the last step of the calibration.
func (c *column) last(score float64) float64 {
	at, is := 0.0, 0.0 // the knots before and after the score; between them the way is straight
	for _, b := range c.bins {
		if score < float64(b.at) {
			return between(score, at, is, float64(b.at), float64(b.is))
		}
		at, is = float64(b.at), float64(b.is)
	}
	if len(c.bins) == 0 {
		return score
	}
	return between(score, at, is, 1, 1)
}

// between returns where x is on the straight line from one point to another.
func between(x, x0, y0, x1, y1 float64) float64 {
	if x1 <= x0 {
		return y0
	}
	return y0 + (y1-y0)*(x-x0)/(x1-x0)
}

// logits computes the uncalibrated predictions.
func (m *Regression) logits(s *Sample, dst *[MostColumns]float32) {
	n := len(m.columns)
	sums := dst[:n]
	clear(sums)
	var squares float32
	for i, id := range s.IDs {
		x := frequency(s.Counts[i]) * float32(m.idf[id]) * idfStep
		squares += x * x
		for c, w := range m.weights[int(id)*n : int(id)*n+n] {
			sums[c] += x * float32(w)
		}
	}
	length := norm(squares)
	for c := range m.columns {
		col := &m.columns[c]
		z := col.bias + sums[c]*length*col.scale
		for j, x := range s.Form {
			z += col.form[j] * (x - m.center[j]) * m.spread[j]
		}
		sums[c] = z
	}
}

// norm returns the factor that makes the squares of a prompt's words add up to 1.
func norm(squares float32) float32 {
	if squares == 0 {
		return 0
	}
	return 1 / float32(math.Sqrt(float64(squares)))
}

// frequency is the weight of a word that occurs so often: 1 + log(n).
func frequency(n uint16) float32 {
	if int(n) < len(frequencies) {
		return frequencies[n]
	}
	return frequencies[len(frequencies)-1]
}

var frequencies = func() (f [256]float32) {
	for n := range f {
		f[n] = float32(1 + math.Log(float64(max(1, n))))
	}
	return f
}()

// coverage is the share of the prompt's words that the model has met.
func (m *Regression) coverage(s *Sample) float64 {
	if len(s.Words) == 0 {
		return 0
	}
	met := 0
	for _, w := range s.Words {
		met += int(m.seen[w>>6] >> (w & 63) & 1)
	}
	return float64(met) / float64(len(s.Words))
}

// sureness maps a coverage to how sure predictions are: linearly between what is rare and
// what is usual among the prompts of the fit.
func (m *Regression) sureness(coverage float64) float64 {
	switch dense, sparse := float64(m.dense), float64(m.sparse); {
	case coverage >= dense:
		return 1
	case coverage <= sparse:
		return 0
	default:
		return (coverage - sparse) / (dense - sparse)
	}
}

// Low returns the lower bound of the 95 % interval of the mean score of prompts for which
// the column's prediction is like this one, as they turned out out of fold.
func (m *Regression) Low(column int, score float64) float64 {
	bins := m.columns[column].bins
	i := sort.Search(len(bins)-1, func(i int) bool { return float64(bins[i].upTo) >= score })
	return max(0, score-float64(bins[i].drop))
}

// logistic is 1/(1+exp(−x)).
func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
