package quality

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Example is a labelled prompt.
type Example struct {
	Sample
	// Scores are of the columns' answers, from 0 to 1; NaN where that is not known.
	Scores []float32
}

// Options are those of a fit.
type Options struct {
	// Key hashed the examples' words.
	Key uint64
	// Seed orders the examples.
	Seed uint64
	// Folds counts the parts that the examples are divided into, each of which is predicted by
	// a fit to the others. Zero is 5.
	Folds int
}

// The least numbers of different labelled prompts, and of labels of a column.
const (
	LeastPrompts = 20
	LeastLabels  = 10
)

const (
	epochs      = 10
	mostDrawn   = 256
	mostBins    = 10
	leastInBin  = 25
	sparsePart  = 0.02 // of the prompts of a fit have less coverage than counts as none
	densePart   = 0.25 // and than counts as full
	leastSpread = 0.05 // between the two
)

// ErrTooFew means that there are not enough labels to fit anything.
var ErrTooFew = errors.New("too few labelled prompts")

// Fit fits a model to the examples, and returns what models that were fitted to the other
// folds predict for each, by a calibration on the other folds too: scores by example and column. Copies of a prompt are in
// one fold. The same examples, columns and options make the same model.
func Fit(examples []Example, columns []string, o Options) (m *Regression, held [][]float64, err error) {
	if err := fitFaults(examples, columns); err != nil {
		return nil, nil, err
	}
	o.Folds = cmp.Or(o.Folds, 5)
	folds := divide(examples, o)
	logits, coverage := crossFit(examples, folds, columns, o)
	m = fitted(examples, columns, o)
	held = m.heldOut(examples, logits, folds, o.Folds)
	m.calibrate(examples, logits)
	m.bin(examples, logits)
	m.cover(coverage)
	m.draw(logits, o.Seed)
	return m, held, nil
}

// fitFaults returns an error if the examples cannot be fitted.
func fitFaults(examples []Example, columns []string) error {
	if len(columns) < 1 || len(columns) > MostColumns {
		return fmt.Errorf("cannot fit scores of %d sizes; want 1 to %d", len(columns), MostColumns)
	}
	if len(examples) < LeastPrompts {
		return fmt.Errorf("%w: %d; want %d or more", ErrTooFew, len(examples), LeastPrompts)
	}
	counts, different := make([]int, len(columns)), map[uint64]bool{}
	for i := range examples {
		different[examples[i].hash()] = true
		if len(examples[i].Scores) != len(columns) {
			return fmt.Errorf("example %d has %d scores for %d columns", i, len(examples[i].Scores), len(columns))
		}
		for c, y := range examples[i].Scores {
			if y < 0 || y > 1 {
				return fmt.Errorf("example %d has score %v of %q; want 0 to 1", i, y, columns[c])
			}
			if y == y {
				counts[c]++
			}
		}
	}
	if len(different) < LeastPrompts {
		return fmt.Errorf("%w: %d without copies; want %d or more", ErrTooFew, len(different), LeastPrompts)
	}
	for c, n := range counts {
		if n < LeastLabels {
			return fmt.Errorf("%w: %d have a score of %q; want %d or more", ErrTooFew, n, columns[c], LeastLabels)
		}
	}
	return nil
}

// divide returns the fold of each example. Equal prompts are in the same.
func divide(examples []Example, o Options) []int {
	type hashed struct {
		hash uint64
		at   int
	}
	order := make([]hashed, len(examples))
	for i := range examples {
		order[i] = hashed{mix(o.Seed, examples[i].hash()), i}
	}
	slices.SortFunc(order, func(a, b hashed) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	folds, distinct := make([]int, len(examples)), -1
	for i, x := range order {
		if i == 0 || x.hash != order[i-1].hash {
			distinct++
		}
		folds[x.at] = distinct % o.Folds
	}
	return folds
}

// crossFit predicts each example by a model that was fitted to the other folds: its logits,
// and which share of its words that has met.
func crossFit(examples []Example, folds []int, columns []string, o Options) (logits [][MostColumns]float32, coverage []float64) {
	logits, coverage = make([][MostColumns]float32, len(examples)), make([]float64, len(examples))
	others := make([]Example, 0, len(examples))
	for fold := range o.Folds {
		others = others[:0]
		for i := range examples {
			if folds[i] != fold {
				others = append(others, examples[i])
			}
		}
		m := fitted(others, columns, o)
		for i := range examples {
			if folds[i] == fold {
				m.logits(&examples[i].Sample, &logits[i])
				coverage[i] = m.coverage(&examples[i].Sample)
			}
		}
	}
	return logits, coverage
}

// fitted fits a model, without its calibration.
func fitted(examples []Example, columns []string, o Options) *Regression {
	m := &Regression{key: o.Key, labels: len(examples), idf: make([]uint16, Buckets), seen: make([]uint64, 1<<wordBits/64)}
	having := make([]int, Buckets)
	for i := range examples {
		for _, id := range examples[i].IDs {
			having[id]++
		}
		for _, w := range examples[i].Words {
			m.seen[w>>6] |= 1 << (w & 63)
		}
	}
	for id, n := range having {
		m.idf[id] = uint16(min(math.MaxUint16, math.Round(math.Log(float64(1+len(examples))/float64(1+n))/idfStep)))
	}
	m.scaleForms(examples)
	for c, name := range columns {
		col := column{name: name, slope: 1}
		var sum float64
		for i := range examples {
			if y := examples[i].Scores[c]; y == y {
				sum, col.count = sum+float64(y), col.count+1
			}
		}
		mean := (sum + 0.5) / (float64(col.count) + 1)
		col.mean, col.bias = float32(sum/float64(max(1, col.count))), float32(math.Log(mean/(1-mean)))
		m.columns = append(m.columns, col)
	}
	l := newLearner(m)
	for c := range m.columns {
		l.bias[c] = m.columns[c].bias
	}
	random := rand.New(rand.NewPCG(o.Seed, 0x7175616c697479))
	for range epochs {
		for _, i := range random.Perm(len(examples)) {
			l.fit(&examples[i])
		}
	}
	return l.Regression()
}

// scaleForms brings the numbers of the form to a mean of zero and the same spread.
func (m *Regression) scaleForms(examples []Example) {
	n := float64(len(examples))
	for j := range forms {
		var sum, squares float64
		for i := range examples {
			x := float64(examples[i].Form[j])
			sum += x
			squares += x * x
		}
		mean := sum / n
		m.center[j] = float32(mean)
		if deviation := math.Sqrt(max(0, squares/n-mean*mean)); deviation > 1e-4 {
			m.spread[j] = float32(formSize / deviation)
		}
	}
}

// cover sets which coverage counts as none and which as full, by those of the examples.
func (m *Regression) cover(coverage []float64) {
	sorted := slices.Clone(coverage)
	slices.Sort(sorted)
	at := func(part float64) float64 { return sorted[int(part*float64(len(sorted)-1))] }
	m.dense = float32(at(densePart))
	m.sparse = float32(min(at(sparsePart), at(densePart)-leastSpread))
}

// draw keeps the predictions for some prompts, of which it has the logits.
func (m *Regression) draw(logits [][MostColumns]float32, seed uint64) {
	n := min(mostDrawn, len(logits))
	m.drawn = make([]uint8, 0, n*len(m.columns))
	for _, i := range rand.New(rand.NewPCG(seed, 0x647261776e)).Perm(len(logits))[:n] {
		for c := range m.columns {
			m.drawn = append(m.drawn, uint8(math.Round(m.columns[c].calibrated(logits[i][c])*255)))
		}
	}
}
