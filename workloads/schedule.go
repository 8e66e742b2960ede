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

// NewSchedule is a schedule of those phases, in order. The error names the first
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

// String is the schedule as parseSchedule reads it.
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
	return &modulated{rng: rng, phases: &scheduled{s.phases}}
}

type scheduled struct{ rest []Phase }

func (s *scheduled) next(*rand.Rand) (rate, seconds float64, ok bool) {
	if len(s.rest) == 0 {
		return 0, 0, false
	}
	p := s.rest[0]
	s.rest = s.rest[1:]
	return p.Rate, p.Duration.Seconds(), true
}
