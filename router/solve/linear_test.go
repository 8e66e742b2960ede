package solve_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"gearshift/router/solve"
)

// TestLinearAgreesWithAnother: drawn programs have the worth that gonum's simplex finds, within their limits.
func TestLinearAgreesWithAnother(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var l solve.Linear
	for trial := range 200 {
		rows, columns := 1+random.IntN(8), 1+random.IntN(20)
		limits, costs := make([]float64, rows), make([]float64, columns+rows)
		a := mat.NewDense(rows, columns+rows, nil)
		for i := range limits {
			limits[i] = float64(random.IntN(5))
			a.Set(i, columns+i, 1)
		}
		l.Begin(columns, limits)
		for j := range columns {
			costs[j] = -random.Float64()
			l.Value(j, -costs[j])
			for i := range limits {
				if use := random.Float64(); i == j%rows || use < 0.4 {
					a.Set(i, j, 0.1+use)
					l.Use(i, j, 0.1+use)
				}
			}
		}
		basis := make([]int, rows)
		for i := range basis {
			basis[i] = columns + i
		}
		want, _, err := lp.Simplex(costs, a, limits, 1e-10, basis)
		if err != nil {
			continue // which gives up on some that are degenerate
		}
		x := make([]float64, columns)
		worth, sum := l.Solve(x), 0.0
		for j := range x {
			sum -= costs[j] * x[j]
		}
		if math.Abs(worth+want) > 1e-6 || math.Abs(sum-worth) > 1e-6 {
			t.Errorf("trial %d: worth %v by columns worth %v, want %v", trial, worth, sum, -want)
		}
		for i, limit := range limits {
			used := 0.0
			for j := range x {
				used += a.At(i, j) * x[j]
			}
			if used > limit+1e-6 {
				t.Errorf("trial %d: %v of limit %d are used, of %v", trial, used, i, limit)
			}
		}
	}
}
