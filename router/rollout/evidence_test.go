package rollout

import (
	"math"
	"math/rand/v2"
	"testing"
)

// play has a sequence of requests of both versions judged after each ten, and returns after how many
// of the new version's the test says that it is worse; 0 if it does not.
func play(t Test, seed uint64, requests int, failsOld, failsNew, slower float64) int {
	random := rand.New(rand.NewPCG(seed, 7))
	var old, next Count
	add := func(c *Count, fails, times float64) {
		c.Add(random.Float64() < fails, times*math.Exp(0.5*random.NormFloat64()))
	}
	for n := range requests {
		add(&old, failsOld, 0.1)
		add(&next, failsNew, 0.1*slower)
		if n%10 == 9 && t.Worse(old, next) != "" {
			return n + 1
		}
	}
	return 0
}

// Asked again and again, the test goes back from a version that is not worse about as seldom as its
// level says.
func TestSeldomWrong(t *testing.T) {
	x := DefaultTest()
	x.Level, x.Failures, x.Slower = 0.05, 0, 1 // nothing is tolerated: the hardest case
	for _, fails := range []float64{0, 0.02, 0.2} {
		wrong := 0
		for seed := range uint64(400) {
			if play(x, seed, 3000, fails, fails, 1) > 0 {
				wrong++
			}
		}
		if share := float64(wrong) / 400; share > x.Level {
			t.Errorf("with %.0f %% failures %.1f %% of equal versions are taken for worse, want at most %.0f %%", 100*fails, 100*share, 100*x.Level)
		}
	}
}

// A version that is clearly worse is found within some hundred requests.
func TestSoonRight(t *testing.T) {
	for _, x := range []struct {
		name            string
		old, new, times float64
		within          int
	}{
		{"fails a tenth", 0.001, 0.1, 1, 500}, {"fails half", 0, 0.5, 1, 60}, {"fails all", 0, 1, 1, 50}, {"takes twice as long", 0, 0, 2, 150},
	} {
		for seed := range uint64(100) {
			if n := play(DefaultTest(), seed, 1000, x.old, x.new, x.times); n == 0 || n > x.within {
				t.Errorf("%s: found after %d requests, want within %d", x.name, n, x.within)
				break
			}
		}
	}
	if n := play(DefaultTest(), 1, 5000, 0.01, 0.012, 1.1); n > 0 {
		t.Errorf("a version that is a little worse, within what is tolerated, is given up after %d requests", n)
	}
	if why := DefaultTest().Worse(Count{Requests: 49}, Count{Requests: 49, Failed: 49}); why != "" {
		t.Errorf("judged by too few requests: %s", why)
	}
}
