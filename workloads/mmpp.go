package workloads

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/mat"
)

// MMPP is a Markov-modulated Poisson process: a Markov chain in continuous time
// with generator Q, and Poisson arrivals at the rate of the phase it is in. As a
// Markovian arrival process it is D0 = Q − Λ, D1 = Λ.
type MMPP struct {
	q          *mat.Dense
	rates      []float64
	exit       []float64   // −Q[i][i]
	jump       [][]float64 // cumulative over the phases that i jumps to
	stationary []float64
	deviation  *mat.Dense // ∫ (e^{Qu} − 1π) du over all u
	mean       float64
}

// NewMMPP is the process with generator q (per second; each row sums to zero)
// and an arrival rate per second for each phase. It begins in the stationary
// distribution of the chain, so the closed forms hold from time zero. Every
// phase must be reachable from every other.
func NewMMPP(q [][]float64, rates []float64) (*MMPP, error) {
	if err := checkGenerator(q, rates); err != nil {
		return nil, err
	}
	n := len(rates)
	m := &MMPP{q: mat.NewDense(n, n, nil), rates: append([]float64(nil), rates...)}
	for i, row := range q {
		m.q.SetRow(i, row)
		m.exit = append(m.exit, -row[i])
		m.jump = append(m.jump, cumulative(row, i))
	}
	if err := m.solve(); err != nil {
		return nil, err
	}
	for i, p := range m.stationary {
		m.mean += p * rates[i]
	}
	return m, nil
}

// cumulative sums the row but for element i, which counts as zero.
func cumulative(row []float64, i int) []float64 {
	sums := make([]float64, len(row))
	var sum float64
	for j, x := range row {
		if j != i {
			sum += x
		}
		sums[j] = sum
	}
	return sums
}

// solve finds the stationary distribution π, with πQ = 0 and π1 = 1, and the
// deviation matrix D = (1π − Q)⁻¹ − 1π.
func (m *MMPP) solve() error {
	n := len(m.rates)
	var a, inverse mat.Dense
	a.CloneFrom(m.q)
	for i := range n {
		a.Set(i, n-1, 1) // one balance equation follows from the others
	}
	b := mat.NewVecDense(n, nil)
	b.SetVec(n-1, 1)
	var pi mat.VecDense
	if err := pi.SolveVec(a.T(), b); err != nil {
		return fmt.Errorf("generator has no single stationary distribution: %w", err)
	}
	m.stationary = pi.RawVector().Data
	a.Apply(func(_, j int, q float64) float64 { return m.stationary[j] - q }, m.q)
	if err := inverse.Inverse(&a); err != nil {
		return fmt.Errorf("generator has no deviation matrix: %w", err)
	}
	inverse.Apply(func(_, j int, x float64) float64 { return x - m.stationary[j] }, &inverse)
	m.deviation = &inverse
	return nil
}

// MeanRate implements [Process]: πΛ1.
func (m *MMPP) MeanRate() float64 { return m.mean }

// IDC implements [Process]. With C(u) = πΛ(e^{Qu} − 1π)Λ1 the autocovariance of
// the rate, Var N(t) = mean·t + 2∫₀ᵗ(t−u)C(u)du, and the integral is
// πΛ(tD − D²(I − e^{Qt}))Λ1.
func (m *MMPP) IDC(window time.Duration) (float64, bool) {
	n := len(m.rates)
	integral := mat.DenseCopyOf(m.deviation) // divided by t
	t := window.Seconds()
	if window <= 0 {
		return 1, true
	}
	if window != Forever {
		var scaled, moved, end mat.Dense
		scaled.Scale(t, m.q)
		moved.Exp(&scaled)
		for i := range n {
			moved.Set(i, i, moved.At(i, i)-1) // e^{Qt} − I
		}
		end.Product(m.deviation, m.deviation, &moved)
		end.Scale(1/t, &end)
		integral.Add(integral, &end)
	}
	var covariance float64
	for i := range n {
		for j := range n {
			covariance += m.stationary[i] * m.rates[i] * integral.At(i, j) * m.rates[j]
		}
	}
	return 1 + 2*covariance/m.mean, true
}

// Times implements [Process].
func (m *MMPP) Times(rng *rand.Rand) Times {
	return &modulated{rng: rng, phases: &mmppPhases{mmpp: m, phase: -1}}
}

type mmppPhases struct {
	mmpp  *MMPP
	phase int // −1 before the first
}

func (p *mmppPhases) next(rng *rand.Rand) (rate, seconds float64, ok bool) {
	m := p.mmpp
	if p.phase < 0 {
		p.phase = pick(rng, cumulative(m.stationary, -1))
	} else {
		p.phase = pick(rng, m.jump[p.phase])
	}
	return m.rates[p.phase], rng.ExpFloat64() / m.exit[p.phase], true
}

// pick draws an index by cumulative weights, not all zero.
func pick(rng *rand.Rand, cumulative []float64) int {
	u := rng.Float64() * cumulative[len(cumulative)-1]
	for i, c := range cumulative {
		if u < c {
			return i
		}
	}
	return len(cumulative) - 1
}

func checkGenerator(q [][]float64, rates []float64) error {
	n := len(rates)
	if n < 2 || len(q) != n {
		return fmt.Errorf("generator has %d rows for %d rates; it needs one each, and at least two", len(q), n)
	}
	var faults []error
	var busy bool
	for i, row := range q {
		if len(row) != n {
			faults = append(faults, fmt.Errorf("row %d of the generator has %d numbers for %d phases", i, len(row), n))
			continue
		}
		var sum, size float64
		for j, x := range row {
			if j != i && !(x >= 0 && x <= maxRate) {
				faults = append(faults, fmt.Errorf("generator[%d][%d] is %v; a rate of jumps is not negative, nor above %v", i, j, x, maxRate))
			}
			sum += x
			size += math.Abs(x)
		}
		if !(math.Abs(sum) <= 1e-9*size) {
			faults = append(faults, fmt.Errorf("row %d of the generator sums to %v, not zero", i, sum))
		}
		busy = busy || rates[i] != 0
		if err := checkRate(rates[i]); rates[i] != 0 && err != nil {
			faults = append(faults, fmt.Errorf("phase %d: %w", i, err))
		}
	}
	if !busy {
		faults = append(faults, errors.New("a process needs a phase with a rate above zero"))
	}
	if len(faults) == 0 && !connected(q) {
		faults = append(faults, errors.New("not every phase can be reached from every other"))
	}
	return errors.Join(faults...)
}

// connected reports whether the jumps lead from every phase to every other.
func connected(q [][]float64) bool {
	for _, backwards := range []bool{false, true} {
		seen := make([]bool, len(q))
		seen[0] = true
		for work := []int{0}; len(work) > 0; {
			i := work[0]
			work = work[1:]
			for j := range q {
				rate := q[i][j]
				if backwards {
					rate = q[j][i]
				}
				if rate > 0 && !seen[j] {
					seen[j] = true
					work = append(work, j)
				}
			}
		}
		for _, s := range seen {
			if !s {
				return false
			}
		}
	}
	return true
}
