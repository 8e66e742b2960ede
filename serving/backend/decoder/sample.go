package decoder

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// sampling is how the next token is drawn.
type sampling struct {
	temperature float64 // 0: the likeliest
	topP        float64 // 1: all
	random      *rand.Rand
	order       []int32   // scratch
	weights     []float64 // scratch
}

// draw picks a token by its logit. One that is not a number is never picked: −1 if none
// is.
func (s *sampling) draw(logits []float32) int64 {
	best := 0
	for i, l := range logits {
		if l > logits[best] || logits[best] != logits[best] {
			best = i
		}
	}
	if logits[best] != logits[best] {
		return -1
	}
	if s.temperature == 0 {
		return int64(best)
	}
	s.weights = slices.Grow(s.weights[:0], len(logits))[:len(logits)]
	sum := 0.0
	for i, l := range logits {
		w := math.Exp((float64(l) - float64(logits[best])) / s.temperature)
		if w != w {
			w = 0
		}
		s.weights[i] = w
		sum += w
	}
	if sum == 0 { // the likeliest is infinitely so
		return int64(best)
	}
	if s.topP < 1 {
		return s.nucleus(s.topP * sum)
	}
	left := s.random.Float64() * sum
	for i, w := range s.weights {
		if left -= w; left < 0 {
			return int64(i)
		}
	}
	return int64(best)
}

// nucleus draws among the likeliest tokens that together have the mass.
func (s *sampling) nucleus(mass float64) int64 {
	s.order = s.order[:0]
	for i := range s.weights {
		s.order = append(s.order, int32(i))
	}
	slices.SortStableFunc(s.order, func(a, b int32) int { return cmp.Compare(s.weights[b], s.weights[a]) })
	kept, held := 0, 0.0
	for kept < len(s.order) && (kept == 0 || held < mass) {
		held += s.weights[s.order[kept]]
		kept++
	}
	left := s.random.Float64() * held
	for _, i := range s.order[:kept] {
		if left -= s.weights[i]; left < 0 {
			return int64(i)
		}
	}
	return int64(s.order[0])
}
