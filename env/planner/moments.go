package planner

import (
	"math"

	"gearshift/workloads"
)

// meanSquare is the second moment of the lengths drawn, after max has cut them.
// Of the lognormal it leaves out the rounding, as [workloads.Lengths.Expected].
func meanSquare(l workloads.Lengths) float64 {
	most := float64(l.Max)
	if l.Max == 0 {
		most = workloads.MaxTokens
	}
	switch l.Distribution {
	case "uniform":
		n := float64(l.Max - l.Min + 1)
		mean := float64(l.Min+l.Max) / 2
		return mean*mean + (n*n-1)/12
	case "geometric":
		// Σ (2k+1)·q^k for k below most, where q is P(one more).
		q := 1 - 1/l.Mean
		whole := (1 + q) / (1 - q) / (1 - q)
		beyond := math.Pow(q, most) * (2*most/(1-q) + (1+q)/(1-q)/(1-q))
		return whole - beyond
	case "lognormal":
		variance := math.Log1p(l.CV * l.CV)
		sigma := math.Sqrt(variance)
		z := (math.Log(most) - math.Log(l.Mean) + variance/2) / sigma
		return l.Mean*l.Mean*(1+l.CV*l.CV)*phi(z-2*sigma) + most*most*phi(-z)
	default:
		return float64(l.Value) * float64(l.Value)
	}
}

// phi is the distribution function of the standard normal.
func phi(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
