package tokens

import (
	"math"
	"sync/atomic"
)

const (
	// fewest is the shortest text that counts: in short ones rounding weighs too much.
	fewest = 32
	// absurd is the factor from which on a count is ignored: no two vocabularies are
	// that far apart, but some engines state nothing, or always the same.
	absurd = 8
	// most bounds the correction, whatever engines say.
	most = 4
	// pull bounds, as a factor, how far off one count is taken to be, so that a few that are
	// wrong weigh little.
	pull = 1.5
	// remembered is over how many counts the ratio is smoothed.
	remembered = 64
)

// Ratio is how many tokens engines count for each that is estimated, smoothed. Its zero value is
// one, of no counts. Its methods may be called from any goroutine.
type Ratio struct {
	log    atomic.Uint64 // the bits of the logarithm
	counts atomic.Uint64
}

// Value is the ratio, from 1/4 to 4.
func (r *Ratio) Value() float64 { return math.Exp(math.Float64frombits(r.log.Load())) }

// Counts is how many counts it is of.
func (r *Ratio) Counts() uint64 { return r.counts.Load() }

// Of is an estimate corrected.
func (r *Ratio) Of(estimated int) int {
	if r.log.Load() == 0 {
		return estimated
	}
	return int(math.Round(float64(estimated) * r.Value()))
}

// Learn takes in what an engine counted where so much was estimated, before correction. It
// leaves out short texts, and counts that cannot be.
func (r *Ratio) Learn(estimated, counted int) {
	if estimated < fewest || counted < 1 {
		return
	}
	seen := math.Log(float64(counted) / float64(estimated))
	if math.Abs(seen) > math.Log(absurd) {
		return
	}
	weight := max(1/float64(r.counts.Add(1)+1), 1.0/remembered)
	for {
		old := r.log.Load()
		at := math.Float64frombits(old)
		step := min(max(seen-at, -math.Log(pull)), math.Log(pull))
		at = min(max(at+weight*step, -math.Log(most)), math.Log(most))
		if r.log.CompareAndSwap(old, math.Float64bits(at)) {
			return
		}
	}
}
