package rl

import "gearshift/router/nn"

// averageInto moves the average towards m: as an exponential average over gradient steps with
// the decay, and over the first steps as a plain mean, so that the initial weights do not
// count for long.
func averageInto(average, m *nn.MLP, decay float64, step int) {
	rate := float32(max(1-decay, 1/float64(step)))
	for i := range m.Weights {
		towards(average.Weights[i], m.Weights[i], rate)
		towards(average.Biases[i], m.Biases[i], rate)
	}
}

func towards(average, v []float32, rate float32) {
	for i, x := range v {
		average[i] += rate * (x - average[i])
	}
}
