package steady

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// search finds the parameters of least squares: of the cells' relative errors, and
// of the way from where the parameters are believed to lie. The latter is so wide
// that it decides only what the cells leave open.
type search struct {
	cells  []Cell
	target []float64 // ln of the times to explain, by cell
	sigma  []float64 // relative error that a cell is good for
	centre []float64 // where the parameters are believed to lie
	fixed  []bool    // parameters that stay at the centre
}

// bend is the error, in sigmas, from which more of it weighs less.
const bend = 2.5

// residuals writes those of the cells, weighed down where they are far out, and
// those of the belief.
func (s *search) residuals(x, to []float64) (loss float64) {
	p := profileAt(x)
	for i := range s.cells {
		r := (math.Log(predict(&p, &s.cells[i].Sample)) - s.target[i]) / s.sigma[i]
		if a := math.Abs(r); a > bend {
			r *= math.Sqrt(2*bend*a-bend*bend) / a // Huber's loss as a square
		}
		to[i] = r
		loss += r * r
	}
	for i := range x {
		r := 0.0
		if !s.fixed[i] {
			r = (x[i] - s.centre[i]) / belief[i].spread
		}
		to[len(s.cells)+i] = r
		loss += r * r
	}
	return loss
}

// descend is Levenberg and Marquardt's way down from x.
func (s *search) descend(from []float64) (x []float64, loss float64) {
	const rounds, step = 60, 1e-5
	n, m := len(from), len(s.cells)+len(from)
	x = slices.Clone(from)
	at, moved := make([]float64, m), make([]float64, m)
	loss = s.residuals(x, at)
	slopes := mat.NewDense(m+n, n, nil)
	right := mat.NewDense(m+n, 1, nil)
	damping := 1e-2
	for range rounds {
		for j := range n {
			y := slices.Clone(x)
			y[j] += step
			s.residuals(y, moved)
			for i := range m {
				d := (moved[i] - at[i]) / step
				if s.fixed[j] {
					d = 0
				}
				slopes.Set(i, j, d)
			}
		}
		for i := range m {
			right.Set(i, 0, -at[i])
		}
		better := false
		for range 8 {
			y := s.step(x, slopes, right, damping, m)
			if y == nil {
				break
			}
			if l := s.residuals(y, moved); l < loss {
				better = loss-l > 1e-9*loss
				x, loss = y, l
				copy(at, moved)
				damping /= 5
				break
			}
			damping *= 4
		}
		if !better {
			break
		}
	}
	return x, loss
}

// step is x and a damped step of Gauss and Newton, at most a factor of ten for each
// parameter.
func (s *search) step(x []float64, slopes, right *mat.Dense, damping float64, m int) []float64 {
	for j := range x {
		for k := range x {
			v := 0.0
			if j == k {
				v = math.Sqrt(damping)
			}
			slopes.Set(m+j, k, v)
		}
		right.Set(m+j, 0, 0)
	}
	var by mat.Dense
	if err := by.Solve(slopes, right); err != nil {
		return nil
	}
	y := slices.Clone(x)
	for j := range y {
		if s.fixed[j] {
			continue
		}
		y[j] += math.Max(-math.Ln10, math.Min(math.Ln10, by.At(j, 0)))
	}
	return y
}

// optimum is where a way down ended.
type optimum struct {
	x    []float64
	loss float64
}

// near is how much more loss an optimum may have and still be as good as the best:
// what noise makes of it.
const near = 6

// best descends from the starts and returns where it came, the best first, without
// those that are worse than it by more than noise. Roofline and floor have kinks, on
// each side of which lies a way down of its own.
func (s *search) best(starts [][]float64) []optimum {
	var all []optimum
	for _, from := range starts {
		if x, loss := s.descend(from); !math.IsNaN(loss) {
			all = append(all, optimum{x, loss})
		}
	}
	slices.SortStableFunc(all, func(a, b optimum) int { return cmp.Compare(a.loss, b.loss) })
	n := 1
	for n < len(all) && all[n].loss < all[0].loss+near {
		n++
	}
	return all[:n]
}

// believed draws parameters from what is believed of them.
func (s *search) believed(random *rand.Rand) []float64 {
	x := slices.Clone(s.centre)
	for j := range x {
		if !s.fixed[j] {
			x[j] += belief[j].spread * random.NormFloat64()
		}
	}
	return x
}

// about are so many starts: x, and what is believed.
func (s *search) about(x []float64, more int, random *rand.Rand) [][]float64 {
	starts := [][]float64{x}
	for range more {
		starts = append(starts, s.believed(random))
	}
	return starts
}

// reach returns how far parameter j can go from x, down or up, the others following it, before
// the cells show it: on the far side of a kink, or where they show a sum alone, it may be
// anything.
func (s *search) reach(x []float64, j int, sign float64) float64 {
	const (
		tells = 2.7 // more loss of the cells: 90 % for one parameter
		step  = 0.25
	)
	held := *s
	held.fixed = slices.Clone(s.fixed)
	held.fixed[j] = true
	y := slices.Clone(x)
	room := make([]float64, len(s.cells)+len(x))
	loss := func() (sum float64) {
		s.residuals(y, room)
		for _, r := range room[:len(s.cells)] {
			sum += r * r
		}
		return sum
	}
	most := loss() + tells
	for math.Abs(y[j]-s.centre[j]) < 3*belief[j].spread {
		at := y[j]
		y[j] += sign * step
		afresh := s.start() // for the far side of a kink
		afresh[j] = y[j]
		if y = held.best([][]float64{y, afresh})[0].x; loss() > most {
			return at
		}
	}
	return y[j]
}
