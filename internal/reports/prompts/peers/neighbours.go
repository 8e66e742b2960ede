package peers

import (
	"slices"

	"gearshift/router/quality"
)

// Neighbours predicts the mean scores of the nearest labelled prompts, by the cosine of their
// words. It is used by one goroutine at a time.
type Neighbours struct {
	vectors
	k        int
	examples []quality.Example
	means    []float64
	postings [][]posting // by bucket
	cosine   []float32   // by example; scratch
	near     []int       // the nearest examples; scratch
}

// posting is an example in which a bucket occurs.
type posting struct {
	example int32
	value   float32
}

// NewNeighbours returns the predictor by the k nearest of the examples.
func NewNeighbours(examples []quality.Example, columns, k int) *Neighbours {
	n := &Neighbours{
		vectors: newVectors(examples), k: min(k, len(examples)), examples: examples, means: means(examples, columns),
		postings: make([][]posting, quality.Buckets), cosine: make([]float32, len(examples)),
	}
	for i := range examples {
		x := n.of(&examples[i].Sample)
		for j, id := range x.ids {
			n.postings[id] = append(n.postings[id], posting{int32(i), x.values[j]})
		}
	}
	return n
}

// Predict writes the predicted score of each column.
func (n *Neighbours) Predict(s *quality.Sample, dst []float64) {
	clear(n.cosine)
	x := n.of(s)
	for j, id := range x.ids {
		for _, p := range n.postings[id] {
			n.cosine[p.example] += x.values[j] * p.value
		}
	}
	n.nearest()
	for c := range dst {
		var sum, count float64
		for _, i := range n.near {
			if y := float64(n.examples[i].Scores[c]); y == y {
				sum, count = sum+y, count+1
			}
		}
		if dst[c] = n.means[c]; count > 0 {
			dst[c] = sum / count
		}
	}
}

// nearest finds the k examples with the largest cosines; of equal ones, the first.
func (n *Neighbours) nearest() {
	n.near = n.near[:0]
	for i, x := range n.cosine {
		if len(n.near) == n.k {
			if x <= n.cosine[n.near[n.k-1]] {
				continue
			}
			n.near = n.near[:n.k-1]
		}
		at, _ := slices.BinarySearchFunc(n.near, x, func(j int, x float32) int {
			if n.cosine[j] >= x {
				return -1
			}
			return 1
		})
		n.near = slices.Insert(n.near, at, i)
	}
}
