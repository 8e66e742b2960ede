package workloads

import "fmt"

// burst is the process of a workload that judges a policy by what its training has
// not shown it; false if none has the name. Training holds each rate for at least some seconds and arrivals at a
// rate are Poisson; here they come in clusters, in bursts shorter than a
// request, or in a load that stays high for minutes. Rates are per second for
// the fleet of the paper; a scenario's rate_scale speeds them up like u1 and u2.
//
//	short-bursts  MMPP: 1/s for 20 s, 48/s for 2 s, in the mean; 5.3/s
//	long-bursts   MMPP: 1/s for 300 s, 24/s for 60 s, in the mean; 4.8/s
//	clusters      Gamma: 4/s, gaps of coefficient of variation 6
func burst(name string) (p Process, ok bool, err error) {
	switch name {
	case "short-bursts":
		p, err = named(NewBursts(1, 48, 20, 2))
	case "long-bursts":
		p, err = named(NewBursts(1, 24, 300, 60))
	case "clusters":
		p, err = named(NewGamma(4, 6))
	default:
		return nil, false, nil
	}
	return p, true, err
}

// NewBursts is the [MMPP] of two phases: rates per second between the bursts,
// which may be zero, and in them, and the mean lengths of both in seconds.
func NewBursts(low, high, calmS, burstS float64) (*MMPP, error) {
	if err := checkBursts(low, high, calmS, burstS); err != nil {
		return nil, err
	}
	up, down := 1/calmS, 1/burstS
	return NewMMPP([][]float64{{-up, up}, {down, -down}}, []float64{low, high})
}

func checkBursts(low, high, calmS, burstS float64) error {
	if err := checkRate(high); err != nil {
		return err
	}
	if low != 0 && checkRate(low) != nil || !(low < high) {
		return fmt.Errorf("rate %v between the bursts is not from 0 to below theirs, %v", low, high)
	}
	for _, s := range []float64{calmS, burstS} {
		if !(s >= minSojourn && s <= maxPhase) {
			return fmt.Errorf("a mean length of %v s is outside %v to %v", s, minSojourn, float64(maxPhase))
		}
	}
	return nil
}

// minSojourn is the shortest phase in seconds: time goes on with each, and the rates of
// the jumps are those that an MMPP may have.
const minSojourn = 0.001
