// Package peers rebuilds routers that choose a model by the prompt, from their papers. They see
// what Gearshift's own predictor sees: the hashed words of [quality.Sample].
package peers

import (
	"math"

	"gearshift/router/quality"
)

// forms is the number of numbers of a prompt's form.
const forms = len(quality.Sample{}.Form)

// formSize is the standard deviation that these are brought to.
const formSize = 0.2

// vectors turns prompts into vectors. By bucket it is 1 + log of how often that occurs, times how
// rare it is among the prompts of a fit, in all of length 1.
type vectors struct {
	rarity       []float32
	mean, spread []float64 // of the numbers of the form
}

// vector has values at some buckets, and the numbers of the prompt's form.
type vector struct {
	ids    []uint16
	values []float32
	form   []float32
}

func newVectors(examples []quality.Example) vectors {
	having := make([]int, quality.Buckets)
	for i := range examples {
		for _, id := range examples[i].IDs {
			having[id]++
		}
	}
	v := vectors{make([]float32, quality.Buckets), make([]float64, forms), make([]float64, forms)}
	v.measure(examples)
	for id, n := range having {
		v.rarity[id] = float32(math.Log(float64(1+len(examples)) / float64(1+n)))
	}
	return v
}

// measure sets the mean and the spread of the numbers of the form.
func (v *vectors) measure(examples []quality.Example) {
	n := float64(max(1, len(examples)))
	for j := range v.mean {
		var sum, squares float64
		for i := range examples {
			x := float64(examples[i].Form[j])
			sum, squares = sum+x, squares+x*x
		}
		v.mean[j] = sum / n
		v.spread[j] = math.Sqrt(max(0, squares/n-v.mean[j]*v.mean[j]))
	}
}

// of returns the vector of a prompt. Its buckets are the sample's.
func (v vectors) of(s *quality.Sample) vector {
	x := vector{s.IDs, make([]float32, len(s.IDs)), make([]float32, forms)}
	for j, y := range s.Form {
		if v.spread[j] > 1e-4 {
			x.form[j] = float32(formSize * (float64(y) - v.mean[j]) / v.spread[j])
		}
	}
	var squares float64
	for i, id := range s.IDs {
		value := (1 + math.Log(float64(s.Counts[i]))) * float64(v.rarity[id])
		x.values[i] = float32(value)
		squares += value * value
	}
	if squares > 0 {
		length := float32(1 / math.Sqrt(squares))
		for i := range x.values {
			x.values[i] *= length
		}
	}
	return x
}

// means returns the mean score by column; 0 of a column without scores.
func means(examples []quality.Example, columns int) []float64 {
	sums, counts := make([]float64, columns), make([]float64, columns)
	for i := range examples {
		for c, y := range examples[i].Scores {
			if y == y {
				sums[c], counts[c] = sums[c]+float64(y), counts[c]+1
			}
		}
	}
	for c := range sums {
		sums[c] /= max(1, counts[c])
	}
	return sums
}
