package dqn

import "math"

// Adam's constants (Kingma & Ba 2015).
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// adam is the optimiser. Its moments and step count are all that it remembers.
type adam struct {
	rate   float64
	steps  uint64
	first  []float32 // the running mean of the gradient
	second []float32 // and of its square
}

func newAdam(parameters int, rate float64) adam {
	return adam{rate: rate, first: make([]float32, parameters), second: make([]float32, parameters)}
}

// step moves the weights against scale times the gradient. The bias corrections
// are folded into the rate and ε, so that the loop has one root and one division.
func (a *adam) step(weights, gradient []float32, scale float32) {
	a.steps++
	t := float64(a.steps)
	root := math.Sqrt(1 - math.Pow(beta2, t))
	rate := float32(a.rate * root / (1 - math.Pow(beta1, t)))
	tiny := float32(epsilon * root)
	gradient, first, second := gradient[:len(weights)], a.first[:len(weights)], a.second[:len(weights)]
	for i, g := range gradient {
		g *= scale
		m := beta1*first[i] + (1-beta1)*g
		v := beta2*second[i] + (1-beta2)*g*g
		first[i], second[i] = m, v
		weights[i] -= rate * m / (float32(math.Sqrt(float64(v))) + tiny)
	}
}

// norm is the Euclidean norm. Four sums hide the latency of the additions.
func norm(v []float32) float64 {
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

// clip is the factor that brings a gradient of the given norm within bound.
func clip(norm, bound float64) float32 {
	if norm <= bound {
		return 1
	}
	return float32(bound / norm)
}
