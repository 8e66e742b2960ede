package rl

import "math"

// GradientNorm is the Euclidean norm. Four sums hide the latency of the additions.
func GradientNorm(v []float32) float64 {
	var s [4]float64
	for len(v) >= 4 {
		s[0] += float64(v[0]) * float64(v[0])
		s[1] += float64(v[1]) * float64(v[1])
		s[2] += float64(v[2]) * float64(v[2])
		s[3] += float64(v[3]) * float64(v[3])
		v = v[4:]
	}
	for _, x := range v {
		s[0] += float64(x) * float64(x)
	}
	return math.Sqrt(s[0] + s[1] + s[2] + s[3])
}

// ClipFactor is the factor that brings a gradient of the given norm within bound.
func ClipFactor(norm, bound float64) float32 {
	if norm <= bound {
		return 1
	}
	return float32(bound / norm)
}
