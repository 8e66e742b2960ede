package placements

import (
	"math"
	"math/rand/v2"
	"time"

	"gearshift/workloads"
)

// loadStream is the stream of random numbers that draws loads.
const loadStream = 0x6c6f6164

// grain is the time for which each rate of a compressed day holds.
const grain = 10 * time.Second

// loads draws the loads of episodes from the rates of a training load.
type loads struct {
	least, most float64
	// An episode ends after about so many requests, and at its length at the latest: calm times count by their
	// requests, as in the workloads that judge.
	requests float64
	length   time.Duration
}

// draw returns the phases of an episode: a steady rate, random rates for random times, of which few may be high, short
// bursts between calms, or a day with its ramps.
func (l *loads) draw(seed uint64) []workloads.Phase {
	rng := rand.New(rand.NewPCG(seed, loadStream))
	switch rng.IntN(5) {
	case 0:
		rate := l.rate(rng)
		return l.fill(func(time.Duration) (float64, float64) { return rate, l.length.Seconds() })
	case 1:
		calm := rng.Float64()
		return l.fill(func(time.Duration) (float64, float64) {
			rate := l.rate(rng)
			if rng.Float64() < calm {
				rate = l.least * math.Pow(l.most/l.least, rng.Float64()/2)
			}
			return rate, 20 * rng.ExpFloat64()
		})
	case 2:
		return l.fill(func(time.Duration) (float64, float64) { return l.rate(rng), 20 + 160*rng.Float64() })
	case 3:
		low, high := l.rate(rng), l.rate(rng)
		low, high = min(low, high), max(low, high)
		requests := 100 * math.Exp(rng.Float64()*math.Log(10))
		up := rng.IntN(2) == 0
		return l.fill(func(time.Duration) (float64, float64) {
			rate := low
			if up = !up; up {
				rate = high
			}
			return rate, requests / rate * rng.ExpFloat64()
		})
	}
	low, high := l.rate(rng), l.rate(rng)
	period, phase := 200+700*rng.Float64(), 2*math.Pi*rng.Float64()
	return l.fill(func(at time.Duration) (float64, float64) {
		share := (1 + math.Sin(phase+2*math.Pi*at.Seconds()/period)) / 2
		rate := (low + share*(high-low)) * math.Exp(0.1*rng.NormFloat64())
		return min(l.most, max(l.least, rate)), grain.Seconds()
	})
}

// rate draws a rate: half of them evenly, half evenly by their logarithms.
func (l *loads) rate(rng *rand.Rand) float64 {
	if rng.IntN(2) == 0 {
		return l.least + rng.Float64()*(l.most-l.least)
	}
	return l.least * math.Pow(l.most/l.least, rng.Float64())
}

// fill repeats phases of a rate and seconds until the episode's end.
func (l *loads) fill(next func(at time.Duration) (rate, seconds float64)) (list []workloads.Phase) {
	at, requests := time.Duration(0), 0.0
	for at < l.length && requests < l.requests {
		rate, seconds := next(at)
		seconds = min(max(1, seconds), (l.requests-requests)/rate+1, (l.length - at).Seconds())
		d := time.Duration(seconds * float64(time.Second))
		if d <= 0 {
			break
		}
		list = append(list, workloads.Phase{Rate: rate, Duration: d})
		at, requests = at+d, requests+rate*seconds
	}
	return list
}
