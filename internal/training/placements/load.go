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
	length      time.Duration
}

// draw returns the phases of an episode: a steady rate, random rates for random times, short bursts between long calms,
// or a day with its ramps.
func (l *loads) draw(seed uint64) []workloads.Phase {
	rng := rand.New(rand.NewPCG(seed, loadStream))
	switch rng.IntN(5) {
	case 0:
		return []workloads.Phase{{Rate: l.rate(rng), Duration: l.length}}
	case 1:
		return l.fill(func() (float64, float64) { return l.rate(rng), 5 + 25*rng.Float64() })
	case 2:
		return l.fill(func() (float64, float64) { return l.rate(rng), 20 + 160*rng.Float64() })
	case 3:
		low, high := l.rate(rng), l.rate(rng)
		low, high = min(low, high), max(low, high)
		requests := 100 * math.Exp(rng.Float64()*math.Log(10))
		up := rng.IntN(2) == 0
		return l.fill(func() (float64, float64) {
			rate := low
			if up = !up; up {
				rate = high
			}
			return rate, min(300, requests/rate*rng.ExpFloat64())
		})
	}
	return l.day(rng)
}

// rate draws a rate: half of them evenly, half evenly by their logarithms.
func (l *loads) rate(rng *rand.Rand) float64 {
	if rng.IntN(2) == 0 {
		return l.least + rng.Float64()*(l.most-l.least)
	}
	return l.least * math.Pow(l.most/l.least, rng.Float64())
}

// fill repeats phases of a rate and seconds until the episode's length.
func (l *loads) fill(next func() (rate, seconds float64)) (list []workloads.Phase) {
	for left := l.length; left > 0; {
		rate, seconds := next()
		d := min(left, max(time.Second, time.Duration(seconds*float64(time.Second))))
		list = append(list, workloads.Phase{Rate: rate, Duration: d})
		left -= d
	}
	return list
}

// day draws a load that rises and falls evenly, with noise.
func (l *loads) day(rng *rand.Rand) (list []workloads.Phase) {
	low, high := l.rate(rng), l.rate(rng)
	period, phase := 200+700*rng.Float64(), 2*math.Pi*rng.Float64()
	for at := time.Duration(0); at < l.length; at += grain {
		share := (1 + math.Sin(phase+2*math.Pi*at.Seconds()/period)) / 2
		rate := (low + share*(high-low)) * math.Exp(0.1*rng.NormFloat64())
		list = append(list, workloads.Phase{Rate: min(l.most, max(l.least, rate)), Duration: min(grain, l.length-at)})
	}
	return list
}
