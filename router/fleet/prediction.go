package fleet

// MostPredicted is the number of variants that a [Prediction] has room for.
const MostPredicted = 16

// Prediction is the expected quality of the answers to one request, in the units of its
// task's row of the quality matrix, which it replaces in decisions. It does not change what
// an answer is worth in the end. The zero value predicts nothing.
type Prediction struct {
	// Known reports whether there is one. Otherwise the task's row holds.
	Known bool
	// Sure says how far it is based on the request's prompt, from 0, where it is the task's
	// row, to 1.
	Sure float32
	// Quality is the expected quality by variant index, and Low its lower confidence bound,
	// which an explicit floor is compared with.
	Quality, Low [MostPredicted]float32
	// Gains is, by variant, a gain over the best smaller variant that few requests exceed.
	// It is shared and read-only; nil where it is not known.
	Gains *[MostPredicted]float32
}

// Quality returns the expected quality of the variant's answer to the request: what is
// predicted for its prompt, or else the number in its task's row.
func (t *Table) Quality(r *Request, variant int) float64 {
	if r.Predicted.Known {
		return float64(r.Predicted.Quality[variant])
	}
	return t.Tasks[r.Task].Quality[variant]
}

// Assured returns what a quality floor is compared with: the lower bound of what is
// predicted, or else the number in the task's row.
func (t *Table) Assured(r *Request, variant int) float64 {
	if r.Predicted.Known {
		return float64(r.Predicted.Low[variant])
	}
	return t.Tasks[r.Task].Quality[variant]
}

// Range returns the predicted quality of the first variant that answers the request's task, and that
// of the best.
func (t *Table) Range(r *Request) (first, best float32) {
	some := false
	for v := range t.Variants {
		if !t.Answers(r.Task, v) {
			continue
		}
		if q := r.Predicted.Quality[v]; !some {
			first, best, some = q, q, true
		} else {
			best = max(best, q)
		}
	}
	return first, best
}
