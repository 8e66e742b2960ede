package evaluation_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/env/evaluation"
)

// rounding is what sums of rewards may be apart.
const rounding = 1e-9

// episode is a run as a credit meets it, and what that said.
type episode struct {
	objective evaluation.Objective
	credit    *evaluation.Credit
	// By decision. What has not ended earned NaN.
	utility, peak []float64
	rewards       map[int]float64
}

func newEpisode(o evaluation.Objective) *episode {
	return &episode{objective: o, credit: evaluation.NewCredit(o), rewards: map[int]float64{}}
}

func (e *episode) decided(peak float64) {
	e.credit.Decided(peak)
	e.utility, e.peak = append(e.utility, math.NaN()), append(e.peak, peak)
}

func (e *episode) ended(decision int, utility float64) {
	e.credit.Ended(decision, utility)
	e.utility[decision] = utility
}

// known takes what rewards have come to be known, each once.
func (e *episode) known(t *testing.T, over bool) {
	t.Helper()
	for decision, reward := range e.credit.Known(over) {
		if _, again := e.rewards[decision]; again {
			t.Errorf("decision %d is rewarded twice", decision)
		}
		e.rewards[decision] = reward
	}
}

// knowable reports whether enough has happened for the reward of a decision.
func (e *episode) knowable(decision int, over bool) bool {
	if e.objective.Window() == 1 {
		return !math.IsNaN(e.utility[decision])
	}
	return !slices.ContainsFunc(e.utility[:decision+1], math.IsNaN) && (over || decision+e.objective.Window() <= len(e.utility))
}

// naive is the reward of a decision, reckoned from scratch.
func (e *episode) naive(decision int) float64 {
	size := e.objective.Window()
	if size == 1 {
		return e.objective.Value(e.utility[decision:decision+1], e.peak[decision:decision+1])
	}
	var sum float64
	for first := max(0, decision-size+1); first <= decision && first+size <= len(e.peak); first++ {
		sum += e.worth(first, decision+1) - e.worth(first, decision)
	}
	return sum / float64(size)
}

// worth is that of the window from first on if the requests from some decision on earn their
// peaks.
func (e *episode) worth(first, from int) float64 {
	size := e.objective.Window()
	assumed := slices.Clone(e.peak[first : first+size])
	copy(assumed, e.utility[first:max(first, min(from, first+size))])
	return e.objective.Value(assumed, e.peak[first:first+size])
}

// total is what the rewards add up to.
func (e *episode) total() (sum float64) {
	for _, r := range e.rewards {
		sum += r
	}
	return sum
}

// want is what the rewards are to add up to.
func (e *episode) want() float64 {
	n, size := len(e.utility), e.objective.Window()
	value := e.objective.Value(e.utility, e.peak)
	if size == 1 {
		return value * float64(n)
	}
	windows := float64(max(0, n-size+1))
	return windows * (value - e.objective.Worth(1)) / float64(size)
}

// draw is a peak and what is earned of it: often all, at times little less or nothing.
func draw(rng *rand.Rand) (peak, utility float64) {
	peak = []float64{1, 1, 2, 0.5, 0}[rng.IntN(5)]
	return peak, peak * []float64{1, 1, 1, 0.97, 0.8, rng.Float64(), 0}[rng.IntN(7)]
}

// Whatever the objective, and in whatever order requests end, each decision is rewarded once,
// as soon as its reward is known and not before, by what its request changed; and the rewards
// add up to what the episode was worth.
func TestRewardsAddUp(t *testing.T) {
	for _, text := range []string{"utility", "power:8", "near-peak", "windows:0.98,20", "windows:0.9,2", "windows:1,5", "windows:0.75,64"} {
		o := parse(t, text)
		e := newEpisode(o)
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 0))
			e.credit.Reset() // which episodes share
			*e = episode{objective: o, credit: e.credit, rewards: map[int]float64{}}
			e.random(t, rng, rng.IntN(100))
			if len(e.rewards) != len(e.utility) {
				t.Fatalf("%s, seed %d: %d of %d decisions are rewarded", text, seed, len(e.rewards), len(e.utility))
			}
			for decision, got := range e.rewards {
				if want := e.naive(decision); math.Abs(got-want) > rounding {
					t.Fatalf("%s, seed %d: decision %d is rewarded by %v, want %v", text, seed, decision, got, want)
				}
			}
			if n := len(e.utility); n > 0 && math.Abs(e.total()-e.want()) > rounding*float64(n) {
				t.Fatalf("%s, seed %d: the rewards add up to %v, want %v", text, seed, e.total(), e.want())
			}
		}
	}
}

// random plays so many requests, which come and end in a random order, and asks after each
// event what is known.
func (e *episode) random(t *testing.T, rng *rand.Rand, requests int) {
	t.Helper()
	earns := map[int]float64{}
	var open []int
	most := 1 + rng.IntN(40) // in flight
	for len(e.utility) < requests || len(open) > 0 {
		if len(e.utility) < requests && len(open) < most && (len(open) == 0 || rng.IntN(2) == 0) {
			peak, utility := draw(rng)
			open, earns[len(e.utility)] = append(open, len(e.utility)), utility
			e.decided(peak)
		} else {
			i := rng.IntN(len(open))
			e.ended(open[i], earns[open[i]])
			open = slices.Delete(open, i, i+1)
		}
		over := len(e.utility) == requests && len(open) == 0
		e.known(t, over)
		for decision := range e.utility {
			if _, known := e.rewards[decision]; known != e.knowable(decision, over) {
				t.Fatalf("%s: decision %d of %d, %v in flight: rewarded %t", e.objective, decision, len(e.utility), open, known)
			}
		}
	}
}

// A window that is lost already costs nothing more: of two losses in a row of requests, the
// second costs the windows alone that the first is no part of.
func TestALostWindowIsLostOnce(t *testing.T) {
	for _, c := range []struct {
		first, second int
		want          [2]float64 // the windows that each loses
	}{
		{5, 6, [2]float64{4, 1}},
		{5, 7, [2]float64{4, 2}},
		{5, 8, [2]float64{4, 3}},
		{5, 9, [2]float64{4, 4}},
		{0, 2, [2]float64{1, 2}},   // the first window is all that the first request is part of
		{13, 15, [2]float64{3, 0}}, // of the last window
	} {
		e := newEpisode(parse(t, "windows:0.98,4"))
		for range 16 {
			e.decided(1)
		}
		for i := range 16 {
			utility := 1.0
			if i == c.first || i == c.second {
				utility = 0
			}
			e.ended(i, utility)
		}
		e.known(t, true)
		for i, reward := range e.rewards {
			want := map[int]float64{c.first: -c.want[0] / 4, c.second: -c.want[1] / 4}[i]
			if math.Abs(reward-want) > rounding {
				t.Errorf("%d and %d are lost: decision %d is rewarded by %v, want %v", c.first, c.second, i, reward, want)
			}
		}
	}
}

// A caller that stops early takes the other rewards later, and none twice.
func TestRewardsWaitForTheirCaller(t *testing.T) {
	for _, text := range []string{"utility", "windows:0.98,4"} {
		c := evaluation.NewCredit(parse(t, text))
		for i := range 10 {
			c.Decided(1)
			c.Ended(i, 1)
		}
		var taken []int
		for range 10 {
			for decision := range c.Known(true) {
				taken = append(taken, decision)
				break
			}
		}
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(taken, want) {
			t.Errorf("%s: rewards of %v are taken, want %v", text, taken, want)
		}
		for decision := range c.Known(true) {
			t.Errorf("%s: decision %d is rewarded twice", text, decision)
		}
	}
}
