// Package jobs generates jobs: several requests that come together, with a floor for their
// mean quality and a deadline. The load is that of MOSEL (arXiv 2310.18481, section 7): a
// rate that changes over a day and has spikes, and in each second jobs of random sizes
// until their requests make up the rate.
package jobs

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Arrival is a job as it comes.
type Arrival struct {
	At       time.Duration
	Size     int // requests
	Floor    float64
	Deadline time.Duration // absolute
}

// Load is how jobs come.
type Load struct {
	// Length is that of the day.
	Length time.Duration
	// Least and Most are the rates between which the day moves, in requests per second.
	Least, Most float64
	// Constant has the rate be Most throughout.
	Constant bool
	// Mean and Spread are of the normal distribution that sizes are drawn from; a size is
	// at least 1.
	Mean, Spread float64
	// Largest splits larger jobs; 0 does not.
	Largest int
	// Deadline is from a job's arrival.
	Deadline time.Duration
	// FloorLow and FloorHigh bound the floors, which are uniform between them.
	FloorLow, FloorHigh float64
}

// Validate names every fault.
func (l *Load) Validate() error {
	var faults []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(l.Length < time.Second, "length: %v must be at least a second", l.Length)
	fault(!(l.Least >= 0 && l.Least <= l.Most && l.Most < 1e6), "rates from %v to %v: want 0 ≤ least ≤ most < 1e6", l.Least, l.Most)
	fault(!(l.Spread >= 0) || math.IsNaN(l.Mean), "sizes of mean %v and spread %v", l.Mean, l.Spread)
	fault(l.Largest < 0, "largest: %d must not be negative", l.Largest)
	fault(l.Deadline <= 0, "deadline: %v must be above 0", l.Deadline)
	fault(!(l.FloorLow <= l.FloorHigh), "floors from %v to %v", l.FloorLow, l.FloorHigh)
	return errors.Join(faults...)
}

// Draw returns the jobs of a day, by arrival. The same seed draws the same jobs.
func (l *Load) Draw(seed uint64) ([]Arrival, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("cannot draw jobs: %w", err)
	}
	rates, sizes := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	var all []Arrival
	var left float64 // of a request, which the next second has
	for second, rate := range l.rates(rates) {
		left += rate
		for left >= 1 {
			size := min(l.size(sizes), int(left))
			left -= float64(size)
			at := time.Duration(second)*time.Second + time.Duration(sizes.Float64()*float64(time.Second))
			a := Arrival{At: at, Floor: l.FloorLow + sizes.Float64()*(l.FloorHigh-l.FloorLow), Deadline: at + l.Deadline}
			for size > 0 {
				a.Size = size
				if l.Largest > 0 {
					a.Size = min(size, l.Largest)
				}
				size -= a.Size
				all = append(all, a)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Arrival) int { return int(a.At - b.At) })
	return all, nil
}

func (l *Load) size(rng *rand.Rand) int {
	return max(1, int(math.Round(l.Mean+l.Spread*rng.NormFloat64())))
}

// rates are those of the seconds: a wave of one day, slow noise on it, and some spikes of a
// few seconds to the most. Their least and most are those of the load.
func (l *Load) rates(rng *rand.Rand) []float64 {
	list := make([]float64, int(l.Length/time.Second))
	if l.Constant {
		for i := range list {
			list[i] = l.Most
		}
		return list
	}
	phase, noise := rng.Float64(), 0.0
	for i := range list {
		day := float64(i) / float64(len(list))
		noise = 0.95*noise + 0.05*rng.NormFloat64()
		list[i] = 0.4 - 0.35*math.Cos(2*math.Pi*(day+phase)) + noise
	}
	for at := spikes(rng); at < len(list); at += spikes(rng) {
		for i := at; i < min(at+2+rng.IntN(6), len(list)); i++ {
			list[i] += 0.3 + 0.7*rng.Float64()
		}
	}
	low, high := slices.Min(list), slices.Max(list)
	for i := range list {
		list[i] = l.Least + (l.Most-l.Least)*(list[i]-low)/max(high-low, 1e-9)
	}
	return list
}

// spikes is the time from one spike to the next, in seconds.
func spikes(rng *rand.Rand) int { return 15 + int(45*rng.ExpFloat64()) }
