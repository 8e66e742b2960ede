package offload

import "math"

// recent is how many arrivals are looked at.
const recent = 16

// Arrivals predicts when a client's frames arrive, by a line through those that arrived last: a single one is early
// or late with its network (ARISE-6). The zero value has seen none.
type Arrivals struct {
	frame [recent]float64
	at    [recent]float64
	n     int
}

// Add notes that a frame has arrived. A frame that is not newer than the last is ignored.
func (a *Arrivals) Add(frame int, at float64) {
	if a.n > 0 && float64(frame) <= a.frame[(a.n-1)%recent] {
		return
	}
	a.frame[a.n%recent], a.at[a.n%recent] = float64(frame), at
	a.n++
}

// Spread returns the standard deviation of the latest arrivals from a line through them; 0 of less than three.
func (a *Arrivals) Spread() float64 {
	n := min(a.n, recent)
	if n < 3 {
		return 0
	}
	var sum float64
	for i := range n {
		at, _ := a.Predict(int(a.frame[i]))
		sum += (a.at[i] - at) * (a.at[i] - at)
	}
	return math.Sqrt(sum / float64(n))
}

// Predict returns when the frame arrives; false before the first arrival. Until there are three, one frame takes one
// frame interval.
func (a *Arrivals) Predict(frame int) (at float64, ok bool) {
	n := min(a.n, recent)
	if n == 0 {
		return 0, false
	}
	var f, t float64
	for i := range n {
		f, t = f+a.frame[i], t+a.at[i]
	}
	f, t = f/float64(n), t/float64(n)
	var spread, both float64
	for i := range n {
		spread += (a.frame[i] - f) * (a.frame[i] - f)
		both += (a.frame[i] - f) * (a.at[i] - t)
	}
	slope := 1.0
	if n > 2 && spread > 0 {
		slope = both / spread
	}
	return t + slope*(float64(frame)-f), true
}
