package workloads

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Phase is a stretch of a [Schedule]: Poisson arrivals at Rate per second,
// which may be zero, for Duration.
type Phase struct {
	Rate     float64
	Duration time.Duration
}

// Schedule is a list of phases, run through once.
type Schedule struct{ phases []Phase }

// NewSchedule returns a schedule of those phases, in order. The error names the first
// phase that cannot be.
func NewSchedule(phases ...Phase) (Schedule, error) {
	var busy bool
	for i, p := range phases {
		if p.Rate != 0 {
			busy = true
			if err := checkRate(p.Rate); err != nil {
				return Schedule{}, fmt.Errorf("phase %d: %w", i, err)
			}
		}
		if p.Duration <= 0 {
			return Schedule{}, fmt.Errorf("phase %d: duration %v must be positive", i, p.Duration)
		}
	}
	if !busy {
		return Schedule{}, errors.New("a schedule needs a phase with a rate above zero")
	}
	return Schedule{slices.Clone(phases)}, nil
}

// parseSchedule reads phases as RATExSECONDS, with commas between them.
func parseSchedule(text string) (Schedule, error) {
	var phases []Phase
	for word := range strings.SplitSeq(text, ",") {
		rate, seconds, _ := strings.Cut(word, "x")
		r, err := strconv.ParseFloat(rate, 64)
		s, fault := strconv.ParseFloat(seconds, 64)
		if err != nil || fault != nil {
			return Schedule{}, fmt.Errorf("%q is not a phase; a schedule has rates and the seconds that they last, such as schedule:5x60,50x10,0x30", word)
		}
		if !(s >= minSojourn && s <= maxPhase) {
			return Schedule{}, fmt.Errorf("a phase of %v s is outside %v to %v", s, minSojourn, maxPhase)
		}
		phases = append(phases, Phase{r, time.Duration(math.Round(s * float64(time.Second)))})
	}
	return NewSchedule(phases...)
}

// String returns the schedule as parseSchedule reads it.
func (s Schedule) String() string {
	words := make([]string, len(s.phases))
	for i, p := range s.phases {
		words[i] = number(p.Rate) + "x" + number(p.Duration.Seconds())
	}
	return strings.Join(words, ",")
}

// MeanRate implements [Process]: the average over the whole schedule.
func (s Schedule) MeanRate() float64 {
	var requests, seconds float64
	for _, p := range s.phases {
		requests += p.Rate * p.Duration.Seconds()
		seconds += p.Duration.Seconds()
	}
	return requests / seconds
}

// IDC implements [Process]. A schedule happens once: it has no random moment.
func (s Schedule) IDC(time.Duration) (float64, bool) { return 0, false }

// Times implements [Process].
func (s Schedule) Times(rng *rand.Rand) Times {
	rest := s.phases
	return modulated(rng, func() (rate, seconds float64, ok bool) {
		if len(rest) == 0 {
			return 0, 0, false
		}
		p := rest[0]
		rest = rest[1:]
		return p.Rate, p.Duration.Seconds(), true
	})
}

// modulated is Poisson arrivals whose rate changes from phase to phase. Each call of phase gives
// the next one: a rate per second, possibly zero, and how many seconds it lasts; false means
// that there are no more. Poisson arrivals have no memory, so each phase begins a new gap.
func modulated(rng *rand.Rand, phase func() (rate, seconds float64, ok bool)) Times {
	var now, end clock // end is that of the phase
	var rate float64
	over := false
	return func() (time.Duration, float64, bool) {
		for !over {
			// With a rate of zero the gap is infinite, and before the first phase
			// the end is the beginning: both go on to the next phase.
			if rate > 0 {
				if ok := now.advance(rng.ExpFloat64() / rate); !ok {
					now.now = Forever
				}
				if now.now < end.now {
					return now.now, rate, true
				}
			}
			now = end
			next, seconds, ok := phase()
			rate, over = next, !ok || !end.advance(seconds)
		}
		return now.now, 0, false
	}
}

// counted is exponential gaps at a rate that changes after a number of requests. Each call of
// segment gives the next one: a rate per second, and the mean of the geometric number (1, 2, …)
// of requests at that rate.
//
// A geometric number of exponential gaps is exponential again, so in time the
// rate is a Markov chain: a segment lasts requests/rate on average, and given
// the past the next request always comes at the present rate. What sets it apart
// from a Markov-modulated Poisson process is that the rate changes at a request.
func counted(rng *rand.Rand, segment func() (rate, requests float64)) Times {
	var c clock
	var rate, requests float64
	left := 0 // requests of the segment to come
	return func() (time.Duration, float64, bool) {
		if left == 0 {
			rate, requests = segment()
			left = geometric(rng, requests)
		}
		left--
		ok := c.advance(rng.ExpFloat64() / rate)
		return c.now, rate, ok
	}
}

// geometric draws from 1, 2, … with that mean, at least 1: an exponential draw
// rounded up.
func geometric(rng *rand.Rand, mean float64) int {
	return 1 + int(-rng.ExpFloat64()/math.Log1p(-1/mean))
}

// uniform draws from [lo, hi).
func uniform(rng *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
