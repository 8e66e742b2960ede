package placement

import "math"

// lagrangian is a bound on the objective of plans that place as many as so many: Lagrange's, with
// all bins as one, so that only resources have prices, and a place.
func lagrangian(p *Problem, placed int) float64 {
	l, budget := p.ledger(), p.budget()
	n := len(budget)
	fits := make([][]bool, len(p.Items)) // any bin, by application and variant
	for i := range p.Items {
		for v := range p.Items[i].Variants {
			any := false
			for s := range p.Bins {
				any = any || p.May(&p.Items[i], s) && l.has(i, v, s)
			}
			fits[i] = append(fits[i], any)
		}
	}
	prices, best := make([]float64, n+1), math.Inf(1) // by resource, per share of the budget; then of a skip
	used := make([]float64, n+1)
	const steps = 20000
	for step := range steps {
		bound := prices[n] * float64(len(p.Items)-placed)
		for r := range budget {
			bound += prices[r]
			used[r] = -1
		}
		used[n] = -float64(len(p.Items) - placed)
		for i := range p.Items {
			a := &p.Items[i]
			most, at := -prices[n], -1
			for v := range a.Variants {
				w := &a.Variants[v]
				if !a.quick(w) || !fits[i][v] {
					continue
				}
				value := w.Quality * a.Rate
				for r, d := range w.Demand {
					value -= prices[r] * d / budget[r]
				}
				if value > most {
					most, at = value, v
				}
			}
			if bound += most; at < 0 {
				used[n]++
				continue
			}
			for r, d := range a.Variants[at].Demand {
				used[r] += d / budget[r]
			}
		}
		best = min(best, bound)
		length := 0.0
		for _, x := range used {
			length += x * x
		}
		for k, x := range used {
			prices[k] = max(0, prices[k]+float64(len(p.Items))*math.Pow(0.9993, float64(step))*x/math.Sqrt(length))
		}
	}
	return best
}
