//go:build onnx && cgo

package onnx

import (
	"math"

	"gearshift/serving/backend/models"
)

// forward is the logits behind the last of the tokens, by plain loops in float64
// over the weights, without a cache: another way to the same numbers.
func forward(d *models.Decoder, tokens []int64) []float64 {
	x := make([][]float64, len(tokens))
	for i, t := range tokens {
		x[i] = make([]float64, d.Width)
		for j := range x[i] {
			x[i][j] = float64(d.Tokens[int(t)*d.Width+j]) + float64(d.Positions[i*d.Width+j])
		}
	}
	for _, b := range d.Blocks {
		mixed := attend(d, b, x)
		for i := range x {
			addTo(x[i], mixed[i])
			h := dense(b.Expand, norm(b.Between, x[i]))
			for j := range h {
				h[j] = max(0, h[j])
			}
			addTo(x[i], dense(b.Contract, h))
		}
	}
	return dense(models.Dense{Weights: d.Head, Bias: make([]float32, models.Vocabulary)}, norm(d.Norm, x[len(x)-1]))
}

// attend is what attention adds to each position.
func attend(d *models.Decoder, b models.Block, x [][]float64) [][]float64 {
	all := make([][]float64, len(x))
	for i := range x {
		all[i] = dense(b.Attention, norm(b.Before, x[i]))
	}
	head := d.Width / d.Heads
	out := make([][]float64, len(x))
	for i := range x {
		mixed := make([]float64, d.Width)
		for h := range d.Heads {
			weights := make([]float64, i+1)
			sum := 0.0
			for j := range weights {
				for k := range head {
					weights[j] += all[i][h*head+k] * all[j][d.Width+h*head+k]
				}
				weights[j] = math.Exp(weights[j] / math.Sqrt(float64(head)))
				sum += weights[j]
			}
			for j, w := range weights {
				for k := range head {
					mixed[h*head+k] += w / sum * all[j][2*d.Width+h*head+k]
				}
			}
		}
		out[i] = dense(b.Merge, mixed)
	}
	return out
}

func norm(n models.Norm, x []float64) []float64 {
	mean, variance := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v-mean)/math.Sqrt(variance+models.Epsilon)*float64(n.Gain[i]) + float64(n.Offset[i])
	}
	return y
}

func dense(d models.Dense, x []float64) []float64 {
	y := make([]float64, len(d.Bias))
	for j := range y {
		y[j] = float64(d.Bias[j])
	}
	for i, v := range x {
		for j := range y {
			y[j] += v * float64(d.Weights[i*len(y)+j])
		}
	}
	return y
}

func addTo(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}
