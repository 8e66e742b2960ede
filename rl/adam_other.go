//go:build !amd64

package rl

// descend moves the weights, and the moments of their gradient.
func descend(weights, gradient, first, second []float32, c *constants) {
	descendEach(weights, gradient, first, second, c)
}
