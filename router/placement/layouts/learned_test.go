package layouts_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/nn"
	"gearshift/router/placement/layouts"
)

// situation returns one of three hosts with two layouts each: small sizes and large ones.
func situation(t *testing.T) *layouts.Situation {
	t.Helper()
	s := &layouts.Situation{
		Now: time.Minute, Table: table(t, 3, three), Loads: []layouts.Load{{Rate: 20, Forecast: 24}}, Horizon: 10 * time.Second,
		Held: make([]int, 3), Worth: 18,
	}
	for h := range 3 {
		list, err := layouts.List(s.Table, h, layouts.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		list = list[:2]
		s.Hosts = append(s.Hosts, layouts.HostState{
			Busy: 0.5 + 0.1*float64(h), Layouts: list, Worth: []float64{18, 19}, Capacity: []float64{8, 16}, Quality: []float64{1, 0.9},
			Takes: []time.Duration{0, 2 * time.Second}, Barred: make([]string, 2),
		})
	}
	return s
}

func network(t *testing.T, seed uint64) *nn.MLP {
	t.Helper()
	m, err := nn.New(layouts.Shared+layouts.Own, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	m.Randomise(rand.New(rand.NewPCG(seed, 0)))
	return m
}

// Hosts that are alike share a row, which stands for the least busy of those that may change.
func TestHostsThatAreAlikeShareARow(t *testing.T) {
	s := situation(t)
	e := layouts.NewEncoder(s)
	if e.Rows() != 3 {
		t.Fatalf("%d rows, want 3: to stay, and each of two layouts to the other", e.Rows())
	}
	x := make([]float32, e.Dim())
	e.Encode(x, s)
	if c := e.Change(1); c.Host != 0 || c.Layout != 1 {
		t.Errorf("row 1 stands for host %d in layout %d, want the least busy, 0, in 1", c.Host, c.Layout)
	}
	if c := e.Change(2); c.Host >= 0 {
		t.Errorf("row 2 stands for host %d, and no host is in the layout", c.Host)
	}
	s.Hosts[0].Barred[1], s.Hosts[1].Moving = "it stays", true
	e.Encode(x, s)
	if c := e.Change(1); c.Host != 2 {
		t.Errorf("row 1 stands for host %d, want the one that may change, 2", c.Host)
	}
	s.Hosts[2].Barred[1] = "it stays"
	e.Encode(x, s)
	if e.Due() || x[layouts.Shared+layouts.Own] != 0 {
		t.Error("a row is open although no host may change")
	}
	for i, v := range x {
		if !(math.Abs(float64(v)) <= 1.5) {
			t.Errorf("number %d is %v, above the bound", i, v)
		}
	}
}

// Without load, capacity or worth the numbers are bounded all the same.
func TestNumbersAreBounded(t *testing.T) {
	s := situation(t)
	s.Worth, s.Loads[0] = 0, layouts.Load{}
	for h := range s.Hosts {
		clear(s.Hosts[h].Worth)
		clear(s.Hosts[h].Capacity)
		clear(s.Hosts[h].Quality)
	}
	e := layouts.NewEncoder(s)
	x := make([]float32, e.Dim())
	e.Encode(x, s)
	s.Loads[0] = layouts.Load{Rate: 1e9, Forecast: 1e9}
	s.Now += time.Second
	e.Encode(x, s)
	for i, v := range x {
		if !(math.Abs(float64(v)) <= 1.5) {
			t.Errorf("number %d is %v, above the bound", i, v)
		}
	}
}

// A change is made where it is worth more than to stay by the margin.
func TestLearnedHasAMargin(t *testing.T) {
	changed := 0
	for seed := range uint64(20) {
		m := network(t, seed)
		l, err := layouts.NewLearned(m, 0)
		if err != nil {
			t.Fatal(err)
		}
		firm, err := layouts.NewLearned(m, 100)
		if err != nil {
			t.Fatal(err)
		}
		if c := l.Choose(situation(t)); c.Host >= 0 {
			changed++
		}
		if c := firm.Choose(situation(t)); c.Host >= 0 {
			t.Fatalf("host %d changes, which is not worth 100", c.Host)
		}
	}
	if changed == 0 || changed == 20 {
		t.Errorf("%d of 20 networks change something", changed)
	}
}

func TestLearnedAllocatesNothing(t *testing.T) {
	l, err := layouts.NewLearned(network(t, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := situation(t)
	l.Choose(s)
	if n := testing.AllocsPerRun(100, func() { s.Now += time.Second; l.Choose(s) }); n > 0 {
		t.Errorf("a choice allocates %v times", n)
	}
}

func TestLearnedRefusesOtherNetworks(t *testing.T) {
	m, err := nn.New(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := layouts.NewLearned(m, 0); err == nil {
		t.Error("a network of 3 inputs is taken")
	}
	if _, err := layouts.NewLearned(network(t, 1), math.NaN()); err == nil {
		t.Error("a margin that is no number is taken")
	}
}
