package workloads

import (
	"math"
	"math/rand/v2"
)

// sampler draws one length.
type sampler interface{ sample(rng *rand.Rand) int }

// sampler is the drawing form of a valid configuration.
func (l Lengths) sampler() sampler {
	switch l.Distribution {
	case "uniform":
		return uniformLengths{l.Min, l.Max - l.Min + 1}
	case "geometric":
		return geometricLengths{-1 / math.Log1p(-1/l.Mean), l.limit()}
	case "lognormal":
		mu, sigma := l.logMoments()
		return lognormalLengths{mu, sigma, l.limit()}
	default:
		return constantLength(l.Value)
	}
}

type constantLength int

func (c constantLength) sample(*rand.Rand) int { return int(c) }

type uniformLengths struct{ min, n int }

func (u uniformLengths) sample(rng *rand.Rand) int { return u.min + rng.IntN(u.n) }

// geometricLengths rounds an exponential draw up, which is exactly geometric
// from 1. The scale −1/ln(1−p) is 0 where p = 1: always one token.
type geometricLengths struct {
	scale float64
	max   int
}

func (g geometricLengths) sample(rng *rand.Rand) int {
	return bound(1+math.Floor(g.scale*rng.ExpFloat64()), g.max)
}

type lognormalLengths struct {
	mu, sigma float64
	max       int
}

func (l lognormalLengths) sample(rng *rand.Rand) int {
	return bound(math.Round(math.Exp(l.mu+l.sigma*rng.NormFloat64())), l.max)
}

// bound is a length between 1 and limit, of any finite or infinite x.
func bound(x float64, limit int) int {
	if x >= float64(limit) {
		return limit
	}
	return max(int(x), 1)
}

// Sampler is the distribution as a function of a source: what draws lengths
// outside a stream. The lengths must be valid.
func (l Lengths) Sampler() func(*rand.Rand) int { return l.sampler().sample }
