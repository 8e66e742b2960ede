package drift

import (
	"math"
	"sync"
)

// estimate is a smoothed ratio: the mean of the logarithms of the first [Enough]
// ratios, and from then on one that forgets at the same pace. A single ratio moves
// it as if it were at most outlier times what is believed, or that much less, so that
// a stalled client or a machine that slept for a while says little.
type estimate struct {
	mu      sync.Mutex // protects all below
	level   float64    // the logarithm
	answers uint64
	out     bool // further off than [Bound], and not yet within [Back]
}

const outlier = 2

// add takes in a ratio. It returns what is believed since, and whether that has
// just left what the profile allows, or come back.
func (e *estimate) add(ratio float64) (out, turned bool, believed float64, answers uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers++
	surprise := math.Log(ratio) - e.level
	most := math.Log(outlier)
	e.level += max(-most, min(surprise, most)) / float64(min(e.answers, Enough))
	if off := math.Abs(e.level); e.answers >= Enough && (!e.out && off > math.Log(Bound) || e.out && off < math.Log(Back)) {
		e.out, turned = !e.out, true
	}
	return e.out, turned, math.Exp(e.level), e.answers
}

func (e *estimate) get() (ratio float64, answers uint64, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return math.Exp(e.level), e.answers, e.answers >= Enough
}

// rounded is a ratio as people read it.
func rounded(ratio float64) float64 { return math.Round(ratio*100) / 100 }

// forget makes the estimate rest on no answers.
func (e *estimate) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.level, e.answers, e.out = 0, 0, false
}
