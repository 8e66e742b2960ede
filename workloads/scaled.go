package workloads

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Scaled is a process whose time runs so many times as fast: every rate is that
// many times as high and every phase that many times as short, so that phases
// hold as many requests as before. A fleet that serves so many times as fast
// then meets the same challenge.
type Scaled struct {
	process Process
	factor  float64
}

// Bounds of the factor.
const minScale, maxScale = 0.01, 100

// CheckScale says what is wrong with a factor of [NewScaled].
func CheckScale(factor float64) error {
	if !(factor >= minScale && factor <= maxScale) {
		return fmt.Errorf("scale %v is outside %v to %v", factor, minScale, maxScale)
	}
	return nil
}

// NewScaled lets the process run factor times as fast.
func NewScaled(p Process, factor float64) (Scaled, error) {
	return Scaled{p, factor}, CheckScale(factor)
}

// MeanRate implements [Process].
func (s Scaled) MeanRate() float64 { return s.factor * s.process.MeanRate() }

// IDC implements [Process]: that of the process over the window as it was.
func (s Scaled) IDC(window time.Duration) (float64, bool) {
	if window != Forever {
		window = time.Duration(min(float64(window)*s.factor, float64(Forever-1)))
	}
	return s.process.IDC(window)
}

// Times implements [Process].
func (s Scaled) Times(rng *rand.Rand) Times { return &scaledTimes{s.process.Times(rng), s.factor} }

type scaledTimes struct {
	times  Times
	factor float64
}

func (s *scaledTimes) Next() (time.Duration, float64, bool) {
	at, rate, ok := s.times.Next()
	scaled := float64(at) / s.factor
	if !ok || !(scaled < float64(Forever)) {
		return 0, 0, false
	}
	return time.Duration(scaled), rate * s.factor, true
}
