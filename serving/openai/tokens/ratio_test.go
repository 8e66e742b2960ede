package tokens

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestRatioFollowsCounts(t *testing.T) {
	for _, truth := range []float64{0.3, 0.65, 1, 1.4, 3} {
		var r Ratio
		random := rand.New(rand.NewPCG(1, 2))
		for range 400 {
			estimated := 40 + random.IntN(4000)
			r.Learn(estimated, int(math.Round(float64(estimated)*truth*math.Exp(0.2*random.NormFloat64()))))
		}
		if got := r.Value(); math.Abs(math.Log(got/truth)) > math.Log(1.1) {
			t.Errorf("ratio %.3f, want about %g", got, truth)
		}
		if got := r.Of(1000); math.Abs(float64(got)-1000*r.Value()) > 0.5 {
			t.Errorf("1000 tokens become %d", got)
		}
	}
}

// The first counts tell much already.
func TestRatioIsQuick(t *testing.T) {
	var r Ratio
	for range 10 {
		r.Learn(1000, 650)
	}
	if got := r.Value(); got < 0.6 || got > 0.72 {
		t.Errorf("ratio %.3f after ten counts, want about 0.65", got)
	}
}

// Engines that state nothing, or always the same, change nothing; those that lie within
// reason no more than by their share.
func TestRatioIsNotSpoilt(t *testing.T) {
	var r Ratio
	for range 1000 {
		r.Learn(2000, 3)
		r.Learn(2000, 0)
		r.Learn(2000, -7)
		r.Learn(100, math.MaxInt)
		r.Learn(0, 50)
		r.Learn(31, 120)
	}
	if r.Value() != 1 || r.Counts() != 0 || r.Of(77) != 77 {
		t.Errorf("ratio %.3f of %d counts", r.Value(), r.Counts())
	}
	for i := range 1000 {
		counted := 1000
		if i%5 == 0 {
			counted = 7900
		}
		r.Learn(1000, counted)
	}
	if got := r.Value(); got > 1.25 {
		t.Errorf("ratio %.3f where one of five lies", got)
	}
	for range 10_000 {
		r.Learn(1000, 7900)
	}
	if got := r.Value(); got > most+1e-9 {
		t.Errorf("ratio %.3f where all lie", got)
	}
}

func TestRatioAtTheSameTime(t *testing.T) {
	var r Ratio
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				r.Learn(100, 150)
				r.Of(100)
			}
		})
	}
	group.Wait()
	if got := r.Value(); math.Abs(got-1.5) > 0.01 || r.Counts() != 8000 {
		t.Errorf("ratio %.3f of %d counts", got, r.Counts())
	}
}
