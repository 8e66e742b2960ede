package offload

import "math"

// newest weighs the latest arrival against those before it. The delay of a network wanders, so that what
// came long ago says little: a straight line through the last 16 arrivals predicts worse than this.
const newest = 0.3

// Arrivals predicts when a client's frames arrive, by a regression on its recent arrivals in which each frame takes one
// frame interval and the latest count most (ARISE-6). The zero value has seen none.
type Arrivals struct {
	n        int
	frame    int     // the newest
	lag      float64 // how much later than its number a frame arrives
	variance float64 // of that
}

// Add notes that a frame has arrived. A frame that is not newer than the last is ignored.
func (a *Arrivals) Add(frame int, at float64) {
	if a.n > 0 && frame <= a.frame {
		return
	}
	off := at - float64(frame) - a.lag
	a.frame, a.n = frame, a.n+1
	if a.n == 1 {
		a.lag = off
		return
	}
	a.lag += newest * off
	a.variance += newest * (off*off - a.variance)
}

// Predict returns when the frame arrives; false before the first arrival.
func (a *Arrivals) Predict(frame int) (at float64, ok bool) {
	return float64(frame) + a.lag, a.n > 0
}

// Spread returns by how much the latest arrivals have missed what was predicted, as a standard deviation.
func (a *Arrivals) Spread() float64 { return math.Sqrt(a.variance) }
