package engine

import (
	"math"
	"math/rand/v2"
	"time"

	"gearshift/internal/faults"
)

// Slowdown is a host whose pace changes, as that of a virtual machine whose cores are
// hyperthreads next to another program's: all steps of its engines take so many times as
// long as the profiles say. How many holds for an exponentially distributed time and is
// then drawn again, its logarithm evenly between those of Min and Max. The zero value
// is a host that keeps to the profiles.
type Slowdown struct {
	Min, Max float64
	Mean     time.Duration
}

// Validate says what is wrong with it.
func (s Slowdown) Validate() error {
	var found faults.List
	found.If(!(s.Min > 0) || !(s.Max >= s.Min) || math.IsInf(s.Max, 0), "a slowdown from %v to %v; it must be above 0, and the second not below the first", s.Min, s.Max)
	found.If(s.Mean <= 0, "a slowdown that holds for %v; it must be above 0", s.Mean)
	return found.Err()
}

// slowness is a host's present slowdown. A copy goes on in the same way.
type slowness struct {
	of     Slowdown
	random rand.PCG
	times  float64
	until  time.Duration
}

// at is how many times as long a step takes that begins then, which must not lie
// before any asked for earlier.
func (s *slowness) at(now time.Duration) float64 {
	if s.of.Mean == 0 {
		return 1
	}
	for now >= s.until {
		random := rand.New(&s.random)
		s.times = s.of.Min * math.Pow(s.of.Max/s.of.Min, random.Float64())
		s.until += time.Duration(random.ExpFloat64()*float64(s.of.Mean)) + 1
	}
	return s.times
}

// SlowDown has the pace of an idle host change from the beginning of time, always in
// the same way for a seed.
func (h *Host) SlowDown(s Slowdown, seed uint64) {
	h.slowness = slowness{of: s, random: *rand.NewPCG(seed, 0x736c6f77646f776e)}
}

// Slowdown is how many times as long as the profiles say a step takes that begins then,
// which must not lie before the last event.
func (h *Host) Slowdown(now time.Duration) float64 { return h.slowness.at(now) }
