package replicas

// rates remembers the last values of a series as running sums, so that the mean of any stretch
// takes two look-ups.
type rates struct {
	sums []float64 // a ring: the sum of the first n values is at n modulo its length
	n    int       // values so far
}

// newRates remembers that many values.
func newRates(values int) rates { return rates{sums: make([]float64, values+1)} }

// add appends a value.
func (r *rates) add(x float64) {
	sum := r.sums[r.n%len(r.sums)]
	r.n++
	r.sums[r.n%len(r.sums)] = sum + x
}

// first is the index of the earliest value that is remembered.
func (r *rates) first() int { return max(0, r.n-len(r.sums)+1) }

// mean is that of the values from index from up to, but not including, index to, of those that
// are remembered; 0 if none is.
func (r *rates) mean(from, to int) float64 {
	from, to = max(from, r.first()), min(to, r.n)
	if from >= to {
		return 0
	}
	return (r.sums[to%len(r.sums)] - r.sums[from%len(r.sums)]) / float64(to-from)
}
