package rl

import "golang.org/x/sys/cpu"

// descend moves the weights, and the moments of their gradient.
func descend(weights, gradient, first, second []float32, c *constants) {
	n := len(weights)
	gradient, first, second = gradient[:n], first[:n], second[:n]
	whole := 0
	if cpu.X86.HasAVX {
		whole = n &^ 7
	}
	if whole > 0 {
		descendAVX(&weights[0], &gradient[0], &first[0], &second[0], whole, c)
	}
	descendEach(weights[whole:], gradient[whole:], first[whole:], second[whole:], c)
}

// descendAVX is descend of n weights, a multiple of 8, to the bit.
//
//go:noescape
func descendAVX(weights, gradient, first, second *float32, n int, c *constants)
