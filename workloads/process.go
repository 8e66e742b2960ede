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
type Times interface {
	Next() (at time.Duration, rate float64, ok bool)
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

// modulation is the answer of all processes whose rate λ(t) forgets at a single
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

// limitOnly is the IDC of a process of which the limit alone is known.
func limitOnly(idc float64, window time.Duration) (float64, bool) {
	if window != Forever {
		return 0, false
	}
	return idc, true
}
