package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gearshift/router/quality"
	"gearshift/serving/quality/feedback"
)

// run has honest keys score answers for some minutes, next to a key that gives many scores, and
// returns what is in charge then.
func (c *corpus) run(t *testing.T, many int, says says, trusted ...string) *quality.Predictor {
	t.Helper()
	const minutes = 10
	x := c.trainer(t, trusted...)
	x.follow(x.Predictors.InCharge())
	honest, hostile := rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(2, 2))
	for range minutes {
		var list []feedback.Label
		for k := range 5 {
			list = append(list, c.labels(honest, fmt.Sprint("honest", k), 20, truth)...)
		}
		list = append(list, c.labels(hostile, "hostile", many/minutes, says)...)
		charge := x.Predictors.InCharge()
		x.learn(charge, list)
		x.publish(charge)
		if x.judge(charge); x.Predictors.Suspended() {
			t.Fatal("the predictor is out of charge")
		}
	}
	return x.Predictors.InCharge().Predictor
}

// says is what a key says of an answer that is worth truth.
type says func(e *quality.Example, v int, truth float64) float64

// lies are ways to score answers falsely.
var lies = map[string]says{
	"all bad":               func(*quality.Example, int, float64) float64 { return 0 },
	"all good":              func(*quality.Example, int, float64) float64 { return 1 },
	"all the same":          func(*quality.Example, int, float64) float64 { return 0.5 },
	"the opposite":          func(_ *quality.Example, _ int, truth float64) float64 { return 1 - truth },
	"the largest good":      lie(func(_ *quality.Example, v int) bool { return v == 2 }, 1),
	"the largest bad":       lie(func(_ *quality.Example, v int) bool { return v == 2 }, 0),
	"all bad of long ones":  lie(func(e *quality.Example, _ int) bool { return e.Form[0] > 6 }, 0),
	"all good of long ones": lie(func(e *quality.Example, _ int) bool { return e.Form[0] > 6 }, 1),
}

// lie scores the answers that it is about, and no others, falsely.
func lie(about func(e *quality.Example, v int) bool, score float64) says {
	return func(e *quality.Example, v int, truth float64) float64 {
		if about(e, v) {
			return score
		}
		return truth
	}
}

// A key that gives 10,000 false scores moves the sizes of no other's requests by more than .02 in
// share, however it lies. Without the others' judgement most of these would.
func TestAHostileKeyMovesNobodysSizes(t *testing.T) {
	c := newCorpus(t)
	want := c.shares(c.run(t, 0, nil))
	moved := func(says says, trusted ...string) (most float64) {
		got := c.shares(c.run(t, 10_000, says, trusted...))
		for v := range want {
			most = max(most, math.Abs(got[v]-want[v]))
		}
		return most
	}
	for name, says := range lies {
		if by := moved(says); by > 0.02 {
			t.Errorf("%s: moved by %.3f", name, by)
		}
	}
	if by := moved(lies["the largest bad"], "hostile"); by < 0.05 {
		t.Errorf("a trusted key moves sizes by %.3f: this test would find nothing", by)
	}
}
