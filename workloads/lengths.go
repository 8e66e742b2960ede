package workloads

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gearshift/workloads/traces"
)

// Lengths is the configuration of how many tokens a prompt or an output has.
// Every length drawn is at least 1, except outputs that are none. The keys that belong to
// each distribution:
//
//	none       for outputs alone: answers without output tokens, such as classes
//	constant   value                 always that
//	uniform    min, max              whole numbers from min to max, both included
//	geometric  mean, [max]           1, 2, …; longer ones count as max
//	lognormal  mean, cv, [max]       rounded; shorter than 1 counts as 1, longer than max as max
//
// The mean is that of the distribution before max cuts it; see [Lengths.Expected].
type Lengths struct {
	Distribution string  `yaml:"distribution"`
	Value        int     `yaml:"value,omitempty"`
	Min          int     `yaml:"min,omitempty"`
	Max          int     `yaml:"max,omitempty"`
	Mean         float64 `yaml:"mean,omitempty"`
	CV           float64 `yaml:"cv,omitempty"`
}

// MaxTokens is the longest prompt or output that a workload may ask for.
const MaxTokens = traces.MaxTokens

// distributions lists the keys of each, by name.
var distributions = map[string][]string{
	"none":      {},
	"constant":  {"value"},
	"uniform":   {"min", "max"},
	"geometric": {"mean", "max"},
	"lognormal": {"mean", "cv", "max"},
}

// Validate names every key that is missing, out of bounds or foreign to the
// distribution, as joined [KeyError].
func (l Lengths) Validate() error {
	var f keyFaults
	keys, ok := distributions[l.Distribution]
	if !ok {
		f.add("distribution", "%q is not known; constant, uniform, geometric or lognormal would be right", l.Distribution)
		return f.Err()
	}
	given := []struct {
		key   string
		value float64
		check func(*keyFaults)
	}{
		{"value", float64(l.Value), func(f *keyFaults) { checkTokens(f, "value", l.Value) }},
		{"min", float64(l.Min), func(f *keyFaults) { checkTokens(f, "min", l.Min) }},
		{"max", float64(l.Max), l.checkMax},
		{"mean", l.Mean, l.checkMean},
		{"cv", l.CV, func(f *keyFaults) {
			if err := checkCV(l.CV); err != nil {
				f.add("cv", "%v", err)
			}
		}},
	}
	for _, g := range given {
		if slices.Contains(keys, g.key) {
			g.check(&f)
		} else if g.value != 0 {
			f.add(g.key, "does not belong to a %s distribution, which has %s", l.Distribution, strings.Join(keys, ", "))
		}
	}
	return f.Err()
}

func checkTokens(f *keyFaults, key string, tokens int) {
	f.addIf(tokens < 1 || tokens > MaxTokens, key, "%d is not a number of tokens from 1 to %d", tokens, MaxTokens)
}

func (l Lengths) checkMax(f *keyFaults) {
	if l.Max == 0 && l.Distribution != "uniform" {
		return // no cap but that of all lengths
	}
	checkTokens(f, "max", l.Max)
	f.addIf(l.Max < l.Min, "max", "%d is below min, %d", l.Max, l.Min)
}

func (l Lengths) checkMean(f *keyFaults) {
	if !(l.Mean >= 1 && l.Mean <= MaxTokens) {
		f.add("mean", "%v is not a mean number of tokens from 1 to %d", l.Mean, MaxTokens)
	} else if l.Max > 0 && l.Mean > float64(l.Max) {
		f.add("mean", "%v is above max, %d", l.Mean, l.Max)
	}
}

// limit returns the longest length drawn.
func (l Lengths) limit() int {
	if l.Max == 0 {
		return MaxTokens
	}
	return l.Max
}

// Longest returns a bound of the lengths drawn, or their mean where there is none: then
// some are longer, but the usual one is not.
func (l Lengths) Longest() int {
	if l.Max > 0 {
		return l.Max
	}
	return max(l.Value, int(math.Ceil(l.Mean)))
}

// Unbounded reports whether the lengths lack the max that they might have.
func (l Lengths) Unbounded() bool { return l.Max == 0 && optionalKeys(l.Distribution) > 0 }

// Expected returns the mean of the lengths drawn, after max has cut them. Of the
// lognormal it leaves out the rounding to whole tokens.
func (l Lengths) Expected() float64 {
	m := float64(l.limit())
	switch l.Distribution {
	case "uniform":
		return float64(l.Min+l.Max) / 2
	case "geometric":
		// Σ P(X > k) for k below max: (1 − (1−p)^max)/p.
		return -math.Expm1(m*math.Log1p(-1/l.Mean)) * l.Mean
	case "lognormal":
		mu, sigma := l.logMoments()
		z := (math.Log(m) - mu) / sigma
		return l.Mean*phi(z-sigma) + m*phi(-z)
	default:
		return float64(l.Value)
	}
}

// logMoments returns the mean and the standard deviation of the logarithm.
func (l Lengths) logMoments() (mu, sigma float64) {
	variance := math.Log1p(l.CV * l.CV)
	return math.Log(l.Mean) - variance/2, math.Sqrt(variance)
}

// phi returns the distribution function of the standard normal.
func phi(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// Sampler draws lengths of a valid configuration from a source.
func (l Lengths) Sampler() func(*rand.Rand) int {
	most := l.limit()
	switch l.Distribution {
	case "uniform":
		return func(rng *rand.Rand) int { return l.Min + rng.IntN(l.Max-l.Min+1) }
	case "geometric":
		// An exponential draw rounded up is exactly geometric from 1. The scale −1/ln(1−p)
		// is 0 where p = 1: always one token.
		scale := -1 / math.Log1p(-1/l.Mean)
		return func(rng *rand.Rand) int { return bound(1+math.Floor(scale*rng.ExpFloat64()), most) }
	case "lognormal":
		mu, sigma := l.logMoments()
		return func(rng *rand.Rand) int { return bound(math.Round(math.Exp(mu+sigma*rng.NormFloat64())), most) }
	default:
		return func(*rand.Rand) int { return l.Value }
	}
}

// bound returns a length between 1 and limit, of any finite or infinite x.
func bound(x float64, limit int) int {
	if x >= float64(limit) {
		return limit
	}
	return max(int(x), 1)
}
