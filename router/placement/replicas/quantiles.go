package replicas

import "slices"

// quantiles has the quantiles of the last values of a series.
type quantiles struct {
	last   []float64 // a ring, in the order in which they came
	next   int
	sorted []float64
}

// newQuantiles remembers that many values.
func newQuantiles(values int) quantiles {
	return quantiles{last: make([]float64, 0, values), sorted: make([]float64, 0, values)}
}

// add takes a value, and forgets the earliest if there is no room.
func (q *quantiles) add(x float64) {
	if len(q.last) < cap(q.last) {
		q.last = append(q.last, x)
	} else {
		i, _ := slices.BinarySearch(q.sorted, q.last[q.next])
		q.sorted = slices.Delete(q.sorted, i, i+1)
		q.last[q.next] = x
		q.next = (q.next + 1) % len(q.last)
	}
	i, _ := slices.BinarySearch(q.sorted, x)
	q.sorted = slices.Insert(q.sorted, i, x)
}

// at is the value that a share p of them does not exceed, 0 if there is none.
func (q *quantiles) at(p float64) float64 {
	if len(q.sorted) == 0 {
		return 0
	}
	return q.sorted[min(len(q.sorted)-1, int(p*float64(len(q.sorted))))]
}
