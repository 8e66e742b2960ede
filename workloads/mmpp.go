package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/mat"

	"gearshift/internal/faults"
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

// NewMMPP returns the process with generator q (per second; each row sums to zero)
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

// cumulative sums the row without element i, which counts as zero.
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
	phase := -1 // before the first
	return modulated(rng, func() (rate, seconds float64, ok bool) {
		if phase < 0 {
			phase = pick(rng, cumulative(m.stationary, -1))
		} else {
			phase = pick(rng, m.jump[phase])
		}
		return m.rates[phase], rng.ExpFloat64() / m.exit[phase], true
	})
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
	var found faults.List
	var busy bool
	for i, row := range q {
		if len(row) != n {
			found.If(true, "row %d of the generator has %d numbers for %d phases", i, len(row), n)
			continue
		}
		var sum, size float64
		for j, x := range row {
			found.If(j != i && !(x >= 0 && x <= maxRate), "generator[%d][%d] is %v; a rate of jumps is not negative, nor above %v", i, j, x, maxRate)
			sum += x
			size += math.Abs(x)
		}
		found.If(!(math.Abs(sum) <= 1e-9*size), "row %d of the generator sums to %v, not zero", i, sum)
		busy = busy || rates[i] != 0
		err := checkRate(rates[i])
		found.If(rates[i] != 0 && err != nil, "phase %d: %w", i, err)
	}
	found.If(!busy, "a process needs a phase with a rate above zero")
	found.If(len(found) == 0 && !connected(q), "not every phase can be reached from every other")
	return found.Err()
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

// burst returns the process of a workload that judges a policy by what its training has
// not shown it; false if none has the name. Training holds each rate for at least some seconds and arrivals at a
// rate are Poisson; here they come in clusters, in bursts shorter than a
// request, or in a load that stays high for minutes. Rates are per second for
// the fleet of the paper; a scenario's rate_scale speeds them up like u1 and u2.
//
//	short-bursts  MMPP: 1/s for 20 s, 48/s for 2 s, in the mean; 5.3/s
//	long-bursts   MMPP: 1/s for 300 s, 24/s for 60 s, in the mean; 4.8/s
//	clusters      Gamma: 4/s, gaps of coefficient of variation 6
func burst(name string) (p Process, ok bool, err error) {
	switch name {
	case "short-bursts":
		p, err = named(NewBursts(1, 48, 20, 2))
	case "long-bursts":
		p, err = named(NewBursts(1, 24, 300, 60))
	case "clusters":
		p, err = named(NewGamma(4, 6))
	default:
		return nil, false, nil
	}
	return p, true, err
}

// NewBursts returns the [MMPP] of two phases: rates per second between the bursts,
// which may be zero, and in them, and the mean lengths of both in seconds.
func NewBursts(low, high, calmS, burstS float64) (*MMPP, error) {
	if err := checkBursts(low, high, calmS, burstS); err != nil {
		return nil, err
	}
	up, down := 1/calmS, 1/burstS
	return NewMMPP([][]float64{{-up, up}, {down, -down}}, []float64{low, high})
}

func checkBursts(low, high, calmS, burstS float64) error {
	if err := checkRate(high); err != nil {
		return err
	}
	if low != 0 && checkRate(low) != nil || !(low < high) {
		return fmt.Errorf("rate %v between the bursts is not from 0 to below theirs, %v", low, high)
	}
	for _, s := range []float64{calmS, burstS} {
		if !(s >= minSojourn && s <= maxPhase) {
			return fmt.Errorf("a mean length of %v s is outside %v to %v", s, minSojourn, float64(maxPhase))
		}
	}
	return nil
}

// minSojourn is the shortest phase in seconds: time goes on with each, and the rates of
// the jumps are those that an MMPP may have.
const minSojourn = 0.001
