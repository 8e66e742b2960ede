package fit

import "slices"

// minimise is Nelder and Mead's search, in as many evaluations, from a simplex of
// that size about x. It asks for no gradient: a simulation has none. The general
// library would bring modules that nothing else here needs.
func minimise(f func([]float64) float64, x []float64, size float64, evaluations int) (best []float64, value float64) {
	s := simplex{f: f, left: evaluations}
	s.add(x)
	for i := range x {
		y := slices.Clone(x)
		y[i] += size
		s.add(y)
	}
	for s.left > 0 && s.spread() > 1e-6 {
		s.turn()
	}
	s.sort()
	return s.corners[0].x, s.corners[0].value
}

type corner struct {
	x     []float64
	value float64
}

type simplex struct {
	f       func([]float64) float64
	left    int // evaluations
	corners []corner
}

func (s *simplex) at(x []float64) corner {
	s.left--
	return corner{x, s.f(x)}
}

func (s *simplex) add(x []float64) { s.corners = append(s.corners, s.at(slices.Clone(x))) }

func (s *simplex) sort() {
	slices.SortStableFunc(s.corners, func(a, b corner) int {
		if a.value < b.value {
			return -1
		} else if a.value > b.value {
			return 1
		}
		return 0
	})
}

func (s *simplex) spread() float64 {
	widest := 0.0
	for _, c := range s.corners[1:] {
		for i, v := range c.x {
			widest = max(widest, v-s.corners[0].x[i], s.corners[0].x[i]-v)
		}
	}
	return widest
}

// turn moves the worst corner through the middle of the others, or draws all
// towards the best.
func (s *simplex) turn() {
	s.sort()
	last := len(s.corners) - 1
	worst := s.corners[last]
	middle := make([]float64, len(worst.x))
	for _, c := range s.corners[:last] {
		for i, v := range c.x {
			middle[i] += v / float64(last)
		}
	}
	moved := func(by float64) corner { return s.at(along(middle, worst.x, by)) }
	switch r := moved(-1); {
	case r.value < s.corners[0].value:
		if far := moved(-2); far.value < r.value {
			r = far
		}
		s.corners[last] = r
	case r.value < s.corners[last-1].value:
		s.corners[last] = r
	default:
		by := 0.5
		if r.value < worst.value {
			by = -0.5
		}
		if c := moved(by); c.value < min(r.value, worst.value) {
			s.corners[last] = c
			return
		}
		for i := 1; i < len(s.corners); i++ {
			s.corners[i] = s.at(along(s.corners[0].x, s.corners[i].x, 0.5))
		}
	}
}

// along returns the point at from + by·(to − from).
func along(from, to []float64, by float64) []float64 {
	x := slices.Clone(from)
	for i := range x {
		x[i] += by * (to[i] - from[i])
	}
	return x
}
