package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Process is a law by which requests arrive. It is read-only and may be shared;
// each call of Times begins a fresh, independent realisation.
type Process interface {
	// MeanRate is the number of requests per second, averaged over time.
	MeanRate() float64
	// IDC is the index of dispersion for counts: Var N / E N of the number of
	// requests in a window of that length, at a random moment. Poisson arrivals
	// have 1 at every window. [Forever] asks for the limit of long windows.
	// False means that no closed form is known there.
	IDC(window time.Duration) (float64, bool)
	// Times begins a realisation at time zero that draws from rng.
	Times(rng *rand.Rand) Times
}

// Times yields the moments of arrival, never decreasing, and the true rate per
// second at each (0 if unknown). False means that there are no more.
type Times func() (at time.Duration, rate float64, ok bool)

// renewal returns a realisation of gaps in seconds, each drawn without regard to those before. The
// rate is the one that it reports.
func renewal(rate float64, gap func() float64) Times {
	var c clock
	return func() (time.Duration, float64, bool) {
		ok := c.advance(gap())
		return c.now, rate, ok
	}
}

// Forever is the window whose IDC is the limit of long windows.
const Forever = time.Duration(math.MaxInt64)

// Bounds of what the clock of nanoseconds can hold with room to spare.
const (
	minRate, maxRate = 1e-6, 1e6 // requests per second
	minCV, maxCV     = 0.01, 100 // of the gaps
)

func checkRate(rate float64) error {
	if !(rate >= minRate && rate <= maxRate) {
		return fmt.Errorf("rate %v is outside %v to %v requests per second", rate, minRate, maxRate)
	}
	return nil
}

func checkCV(cv float64) error {
	if !(cv >= minCV && cv <= maxCV) {
		return fmt.Errorf("coefficient of variation %v is outside %v to %v", cv, minCV, maxCV)
	}
	return nil
}

// clock is the time of the latest arrival or event.
type clock struct{ now time.Duration }

// advance moves the clock on by so many seconds. False means that the time
// would leave the range of a Duration, some 292 years.
func (c *clock) advance(seconds float64) bool {
	ns := seconds * float64(time.Second)
	if !(ns < float64(Forever-c.now)) {
		return false
	}
	c.now += time.Duration(ns)
	return true
}

// modulation returns the answer of all processes whose rate λ(t) forgets at a single
// rate r: IDC(t) = 1 + A − A(1−e^{−rt})/(rt), with A the excess in the limit.
func modulation(excess, r float64, window time.Duration) float64 {
	if window == Forever {
		return 1 + excess
	}
	x := r * window.Seconds()
	if x <= 0 {
		return 1
	}
	return 1 + excess*(1+math.Expm1(-x)/x)
}

// limitOnly returns the IDC of a process of which the limit alone is known.
func limitOnly(idc float64, window time.Duration) (float64, bool) {
	if window != Forever {
		return 0, false
	}
	return idc, true
}

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
func (s Scaled) Times(rng *rand.Rand) Times {
	next := s.process.Times(rng)
	return func() (time.Duration, float64, bool) {
		at, rate, ok := next()
		scaled := float64(at) / s.factor
		if !ok || !(scaled < float64(Forever)) {
			return 0, 0, false
		}
		return time.Duration(scaled), rate * s.factor, true
	}
}
