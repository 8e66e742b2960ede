package rl

import "math"

// The constants of [Adam].
const (
	Beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// Adam is the optimiser of one set of weights (Kingma & Ba 2015). It remembers its moments and
// the count of its steps, which are stored. It stands here and not with the kernels of rl/fused:
// a package that calls C can have no assembly.
type Adam struct {
	Rate   float64
	Steps  uint64
	First  []float32 // the running mean of the gradient
	Second []float32 // and of its square
}

// NewAdam returns an optimiser that has taken no step.
func NewAdam(parameters int, rate float64) Adam {
	return Adam{Rate: rate, First: make([]float32, parameters), Second: make([]float32, parameters)}
}

// Step moves the weights against scale times the gradient. The bias corrections
// are folded into the rate and ε, so that the loop has one root and one division.
func (a *Adam) Step(weights, gradient []float32, scale float32) {
	a.Steps++
	t := float64(a.Steps)
	root := math.Sqrt(1 - math.Pow(beta2, t))
	c := constants{
		scale: scale, beta1: Beta1, rest1: 1 - Beta1, beta2: beta2, rest2: 1 - beta2,
		rate: float32(a.Rate * root / (1 - math.Pow(Beta1, t))),
		tiny: float32(epsilon * root),
	}
	descend(weights, gradient, a.First, a.Second, &c)
}

// constants are the numbers of a step that all weights share.
type constants struct{ scale, beta1, rest1, beta2, rest2, rate, tiny float32 }

// descendEach is descend, one by one.
func descendEach(weights, gradient, first, second []float32, c *constants) {
	gradient, first, second = gradient[:len(weights)], first[:len(weights)], second[:len(weights)]
	for i, g := range gradient {
		g *= c.scale
		m := c.beta1*first[i] + c.rest1*g
		v := c.beta2*second[i] + c.rest2*g*g
		first[i], second[i] = m, v
		weights[i] -= c.rate * m / (float32(math.Sqrt(float64(v))) + c.tiny)
	}
}
