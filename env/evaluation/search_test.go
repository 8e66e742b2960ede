package evaluation

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// climb is a search whose score is a function of the values.
func climb(limit int, axes []Axis, score func(values []float64) float64) *search {
	f := &Family{Name: "test", Axes: axes, Make: func(values []float64) (string, Decider, error) {
		return fmt.Sprint(values), nil, nil
	}}
	s := &search{family: f, limit: limit}
	s.play = func(values []float64) (Trial, error) {
		return Trial{Policy: fmt.Sprint(values), Values: values, Score: score(values)}, nil
	}
	return s
}

func best(t *testing.T, s *search) Trial {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	return s.trials[s.ranking()[0]]
}

// A smooth hill between the grid's points, on axes of unlike scales.
func TestSearchClimbs(t *testing.T) {
	axes := []Axis{
		{Name: "a", Grid: []float64{0, 1, 2, 3}},
		{Name: "b", Grid: []float64{10, 100, 1000}},
	}
	s := climb(80, axes, func(v []float64) float64 {
		a, b := v[0]-1.7, math.Log10(v[1])-2.3
		return -a*a - b*b - a*b
	})
	if got := best(t, s).Values; math.Abs(got[0]-1.7) > 0.1 || math.Abs(got[1]-200) > 30 {
		t.Errorf("found %v, want about [1.7 200]", got)
	}
}

// Five axes have more grid points than there are trials.
func TestSearchSpreadsWhatItCannotCover(t *testing.T) {
	var axes []Axis
	for range 5 {
		axes = append(axes, Axis{Grid: []float64{0, 1, 2, 3, 4}})
	}
	s := climb(100, axes, func(v []float64) float64 { return -math.Abs(v[0]-3.25) - math.Abs(v[4]-0.5) })
	if got := best(t, s); got.Score < -0.2 {
		t.Errorf("found %+v", got)
	}
	if len(s.trials) > 100 {
		t.Errorf("played %d trials of 100", len(s.trials))
	}
	seen := make([][5]int, 5) // how often each value of each axis is in the coarse search
	coarse := 0
	for _, trial := range s.trials {
		if trial.Stage == Coarse {
			coarse++
			for i, x := range trial.Values {
				seen[i][int(x)]++
			}
		}
	}
	if coarse != 50 {
		t.Errorf("%d coarse trials, want 50", coarse)
	}
	for i := range seen {
		for x, n := range seen[i] {
			if n < 6 || n > 14 {
				t.Errorf("axis %d has value %d in %d of 50 trials, want about 10", i, x, n)
			}
		}
	}
}

// One in 600 of these points makes a policy, as with limits that must ascend.
func TestSearchFindsThePointsThatMakePolicies(t *testing.T) {
	var axes []Axis
	for range 5 {
		axes = append(axes, Axis{Grid: []float64{1, 2, 3, 4, 5, 6, 7, 8}})
	}
	s := climb(40, axes, func(v []float64) float64 { return -v[4] })
	s.family.Make = func(v []float64) (string, Decider, error) {
		for i := range v[1:] {
			if v[i+1] <= v[i] {
				return "", nil, errors.New("limits must ascend")
			}
		}
		return fmt.Sprint(v), nil, nil
	}
	best(t, s)
	coarse := 0
	for _, trial := range s.trials {
		if trial.Stage == Coarse {
			coarse++
		}
	}
	if coarse != 20 {
		t.Errorf("%d of 20 coarse trials are played", coarse)
	}
}

// What a search begins from counts as a trial, keeps within the grid, and is improved on.
func TestSearchStarts(t *testing.T) {
	axes := []Axis{{Grid: []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, {Grid: []float64{0, 10, 100}}}
	s := climb(40, axes, func(v []float64) float64 { return -math.Abs(v[0]-6.6) - math.Abs(v[1]-40)/100 })
	s.family.Starts = [][]float64{{6.5, 37}, {-3, 1000}}
	if got := best(t, s); got.Score < -0.11 {
		t.Errorf("found %+v", got)
	}
	if a, b := s.trials[0].Values, s.trials[1].Values; a[0] != 6.5 || a[1] != 37 || b[0] != 0 || b[1] != 100 || len(s.trials) > 40 {
		t.Errorf("began with %v and %v, of %d trials", a, b, len(s.trials))
	}
}

// Tied axes share their values in the coarse search, and part in the refinement.
func TestSearchTies(t *testing.T) {
	axes := []Axis{
		{Name: "a1", Grid: []float64{0, 1, 2}, Tie: "1"}, {Name: "a2", Grid: []float64{0, 1, 2}, Tie: "2"},
		{Name: "b1", Grid: []float64{0, 1, 2}, Tie: "1"}, {Name: "b2", Grid: []float64{0, 1, 2}, Tie: "2"},
	}
	s := climb(80, axes, func(v []float64) float64 { return -math.Abs(v[0]-0.5) - math.Abs(v[2]-1.5) - v[1] - v[3] })
	if got := best(t, s); got.Score != 0 {
		t.Errorf("found %+v, want [0.5 0 1.5 0]", got)
	}
	for i, trial := range s.trials {
		v := trial.Values
		if (trial.Stage == Coarse) != (i < 9) || i < 9 && (v[0] != v[2] || v[1] != v[3]) {
			t.Errorf("trial %d: %+v", i, trial)
		}
	}
}

func TestAxisInterpolates(t *testing.T) {
	a := Axis{Grid: []float64{0, 0.3, 1000}}
	for x, want := range map[float64]float64{0: 0, 0.5: 0.15, 1: 0.3, 1.5: 500.2, 2: 1000} { // 500.15, to four digits
		if got := a.value(x); got != want {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
}
