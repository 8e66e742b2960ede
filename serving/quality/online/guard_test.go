package online

import "testing"

// feed notes labels whose squared errors by predictor and row alternate around these.
func feed(g *guard, n int, predictor, row float64) {
	for i := range n {
		spread := 0.1
		if i%2 == 0 {
			spread = -0.1
		}
		g.note(squaredErrors{predictor: predictor + spread, row: row, mean: row})
	}
}

func TestTheWorseIsOutOfCharge(t *testing.T) {
	var g guard
	step := func(n int, predictor, row float64, out, changed bool) {
		t.Helper()
		feed(&g, n, predictor, row)
		if o, c := g.judge(g.compare()); o != out || c != changed {
			t.Errorf("%+v: out of charge %v, changed %v, want %v, %v", g.compare(), o, c, out, changed)
		}
	}
	step(0, 0, 0, false, false)
	step(99, 0.3, 0.2, false, false) // too few
	step(1, 0.3, 0.2, true, true)
	step(500, 0.2, 0.2, true, false) // as good: stays out
	step(500, 0.18, 0.2, false, true)
	step(500, 0.2, 0.2, false, false)  // as good: stays in
	step(500, 0.21, 0.2, false, false) // worse by less than the interval
	step(500, 0.22, 0.2, true, true)
}

func TestComparisonsAreOfTheLastLabels(t *testing.T) {
	var g guard
	feed(&g, 300, 0.9, 0.1)
	feed(&g, window, 0.25, 0.5)
	c := g.compare()
	near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
	if c.Labels != window || !near(c.Predictor, 0.25) || !near(c.Row, 0.5) || !near(c.Gain, 0.25) || !near(c.High-c.Gain, confidence*0.1/22.360679774997898) {
		t.Errorf("%+v", c)
	}
}
