package online

import "math"

// The settings of the guard.
const (
	window     = 500 // labels
	leastJudge = 100
	confidence = 2.576 // standard errors: 99 %
)

// guard compares the predictor with the rows of tasks on the last labels: by the squares of the
// errors (Brier scores).
type guard struct {
	last []squaredErrors // a ring
	next int
	out  bool // of charge
}

// squaredErrors are those of one label.
type squaredErrors struct{ predictor, row, mean float64 }

// Comparison reports how well the last scores were predicted.
type Comparison struct {
	// Labels counts the scores.
	Labels int `json:"labels"`
	// Predictor, Row and Mean are the mean squares of the errors of the predictor, of the task's row,
	// and of the mean score so far by task and variant.
	Predictor float64 `json:"predictor"`
	Row       float64 `json:"row"`
	Mean      float64 `json:"mean"`
	// Gain is Row − Predictor, between Low and High with a confidence of 99 %.
	Gain float64 `json:"gain"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// note adds a label in place of the oldest.
func (g *guard) note(e squaredErrors) {
	if len(g.last) < window {
		g.last = append(g.last, e)
		return
	}
	g.last[g.next] = e
	g.next = (g.next + 1) % window
}

// compare returns how well the last labels were predicted.
func (g *guard) compare() (c Comparison) {
	c.Labels = len(g.last)
	if c.Labels == 0 {
		return c
	}
	n := float64(c.Labels)
	var squares float64
	for _, e := range g.last {
		gain := e.row - e.predictor
		c.Predictor, c.Row, c.Mean = c.Predictor+e.predictor/n, c.Row+e.row/n, c.Mean+e.mean/n
		c.Gain, squares = c.Gain+gain/n, squares+gain*gain/n
	}
	half := confidence * math.Sqrt(max(0, squares-c.Gain*c.Gain)/n)
	c.Low, c.High = c.Gain-half, c.Gain+half
	return c
}

// judge reports whether the predictor is to be out of charge, and whether that is new. It goes out
// once it is worse than the row beyond doubt, and comes back once it is better beyond doubt.
func (g *guard) judge(c Comparison) (out, changed bool) {
	was := g.out
	switch {
	case c.Labels < leastJudge:
	case c.High < 0:
		g.out = true
	case c.Low > 0:
		g.out = false
	}
	return g.out, g.out != was
}
