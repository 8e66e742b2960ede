package profile

import "math"

// Bandwidth is the law by which memory slows the work of a host. Up to Knee, a share of the
// host's memory bandwidth, work takes as long as it does alone. Above, the latency of memory
// grows exponentially, and the work with it. To the operating system a core that waits for
// memory is busy.
type Bandwidth struct {
	// Knee is the share of the bandwidth from which latency grows.
	Knee float64
	// Steepness is the exponent: at a share u of the bandwidth above the knee, latency is
	// e^(Steepness · (u − Knee)) times what it is below.
	Steepness float64
}

// DefaultBandwidth has latency grow from two thirds of the bandwidth, to four times at nine
// tenths.
var DefaultBandwidth = Bandwidth{Knee: 0.67, Steepness: 6}

// Latency returns how many times as long an access to memory takes as alone where a share of
// the bandwidth is in use.
func (b Bandwidth) Latency(used float64) float64 {
	return math.Exp(b.Steepness * max(0, used-b.Knee))
}

// Stretch returns how many times as long work takes on cores that would use the share asked
// of the bandwidth at full speed; it may be above 1. Cores that wait ask for less, so that
// asked/Stretch is in use.
func (b Bandwidth) Stretch(asked float64) float64 {
	if !(asked > b.Knee) {
		return 1
	}
	low, high := 1.0, asked/b.Knee // the stretch is what Latency is of asked/stretch, which falls as that rises
	for range 60 {
		if middle := (low + high) / 2; b.Latency(asked/middle) > middle {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
