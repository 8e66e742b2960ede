package workloads

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// NewSchedule is a schedule of those phases, in order. The error names every
// phase that cannot be.
func NewSchedule(phases ...Phase) (Schedule, error) {
	var faults []error
	var busy bool
	for i, p := range phases {
		if p.Rate != 0 {
			busy = true
			if err := checkRate(p.Rate); err != nil {
				faults = append(faults, fmt.Errorf("phase %d: %w", i, err))
			}
		}
		if p.Duration <= 0 {
			faults = append(faults, fmt.Errorf("phase %d: duration %v must be positive", i, p.Duration))
		}
	}
	if !busy {
		faults = append(faults, errors.New("a schedule needs a phase with a rate above zero"))
	}
	return Schedule{append([]Phase(nil), phases...)}, errors.Join(faults...)
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
