package workloads

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/internal/splitmix"
)

var optShape = Shape{Prompt: optPrompt, Output: optOutput}

// processes is one of each kind.
func processes() map[string]Process {
	return map[string]Process{
		"poisson":    must(NewPoisson(3)),
		"gamma":      must(NewGamma(3, 3)),
		"weibull":    must(NewWeibull(3, 2)),
		"mmpp":       must(NewMMPP([][]float64{{-0.1, 0.1}, {0.4, -0.4}}, []float64{2, 20})),
		"stable":     must(NewStable(3, 40*time.Second)),
		"u1":         U1{},
		"u2":         U2{},
		"u2-uniform": U2Uniform{},
		"schedule":   must(NewSchedule(Phase{5, time.Minute}, Phase{50, time.Minute})),
		"switching":  must(NewRandomSwitching(Load{MinRate: 0.25, MaxRate: 48, UniformShare: 0.3, MinPhase: 10, MaxPhase: 60})),
		"trace":      loaded(arenaFile),
	}
}

// collect is a stream's first n arrivals, or all if there are fewer.
func collect(s Stream, n int) []Arrival {
	var all []Arrival
	for len(all) < n {
		a, ok := s.Next()
		if !ok {
			break
		}
		all = append(all, a)
	}
	return all
}

func TestStreams(t *testing.T) {
	for name, p := range processes() {
		t.Run(name, func(t *testing.T) {
			begin := func(seed uint64) []Arrival {
				s, err := New(p, fourTasks, optShape, seed, Limit{})
				if err != nil {
					t.Fatal(err)
				}
				return collect(s, 3000)
			}
			one, same, other := begin(1), begin(1), begin(2)
			if len(one) < 50 {
				t.Fatalf("%d arrivals", len(one))
			}
			differ := 0
			for i, a := range one {
				if a != same[i] {
					t.Fatalf("arrival %d is %+v and then %+v under one seed", i, a, same[i])
				}
				if i < len(other) && a != other[i] {
					differ++
				}
				if i > 0 && a.At < one[i-1].At || a.At < 0 {
					t.Fatalf("arrival %d is at %v after %v", i, a.At, one[max(i-1, 0)].At)
				}
				if (a.Rate > 0) == (name == "trace") {
					t.Fatalf("arrival %d has a true rate of %v", i, a.Rate)
				}
			}
			if differ < len(one)/2 {
				t.Errorf("two seeds differ in %d of %d arrivals only", differ, len(one))
			}
		})
	}
}

// Changing one part of a workload leaves the draws of the others as they were.
func TestPartsAreIndependent(t *testing.T) {
	base := func() (Process, Shape) { return U1{}, optShape }
	draw := func(change func(*Process, *Shape)) []Arrival {
		p, shape := base()
		change(&p, &shape)
		s, err := New(p, fourTasks, shape, Seed(Training, 7), Limit{Requests: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return collect(s, 1000)
	}
	was := draw(func(*Process, *Shape) {})
	cases := map[string]struct {
		change func(*Process, *Shape)
		keep   func(a *Arrival) // clears what may differ
	}{
		"arrivals": {func(p *Process, _ *Shape) { *p = must(NewWeibull(9, 3)) }, func(a *Arrival) { a.At, a.Rate = 0, 0 }},
		"tasks":    {func(_ *Process, s *Shape) { s.Mix = Mix{"copa": 1, "piqa": 5} }, func(a *Arrival) { a.Task = 0 }},
		"prompts":  {func(_ *Process, s *Shape) { s.Prompt = Lengths{Distribution: "constant", Value: 7} }, func(a *Arrival) { a.PromptTokens = 0 }},
		"outputs":  {func(_ *Process, s *Shape) { s.Output = Lengths{Distribution: "lognormal", Mean: 50, CV: 2} }, func(a *Arrival) { a.OutputTokens = 0 }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			differ := false
			for i, now := range draw(c.change) {
				before := was[i]
				differ = differ || before != now
				c.keep(&before)
				c.keep(&now)
				if before != now {
					t.Fatalf("arrival %d became %+v from %+v", i, now, before)
				}
			}
			if !differ {
				t.Error("the change changed nothing")
			}
		})
	}
}

// Equal parameters do not make the parts agree: prompts and outputs of the same
// distribution are uncorrelated, and so are neighbouring seeds.
func TestPartsAreUncorrelated(t *testing.T) {
	same := Lengths{Distribution: "uniform", Min: 1, Max: 1000}
	stream := func(seed uint64) []Arrival {
		s, err := New(U1{}, fourTasks, Shape{Prompt: same, Output: same}, seed, Limit{})
		if err != nil {
			t.Fatal(err)
		}
		return collect(s, 20_000)
	}
	a, b := stream(Seed(Training, 1)), stream(Seed(Training, 2))
	check := func(what string, x, y func(i int) int) {
		var equal int
		var product float64
		for i := range a {
			if x(i) == y(i) {
				equal++
			}
			product += (float64(x(i)) - 500.5) * (float64(y(i)) - 500.5)
		}
		// The correlation of independent draws has a standard deviation of 0.007.
		if r := product / float64(len(a)) / (1e6 / 12); r > 0.03 || r < -0.03 || equal > 60 {
			t.Errorf("%s: correlation %.3f, %d of %d equal", what, r, equal, len(a))
		}
	}
	check("prompts and outputs", func(i int) int { return a[i].PromptTokens }, func(i int) int { return a[i].OutputTokens })
	check("prompts of two seeds", func(i int) int { return a[i].PromptTokens }, func(i int) int { return b[i].PromptTokens })
}

func TestLimits(t *testing.T) {
	s := open(t, must(NewPoisson(10)), 1, Limit{Requests: 5})
	if n := len(collect(s, 100)); n != 5 {
		t.Errorf("%d requests; want 5", n)
	}
	s = open(t, must(NewPoisson(10)), 1, Limit{Duration: 10 * time.Second})
	all := collect(s, 1000)
	near(t, "requests in 10 s", float64(len(all)), 100, 0.3)
	if last := all[len(all)-1].At; last >= 10*time.Second {
		t.Errorf("a request at %v", last)
	}
	if _, ok := s.Next(); ok {
		t.Error("the stream went on after its end")
	}
}

func TestSeeds(t *testing.T) {
	domains := []Domain{0, Training, Validation, Evaluation, Serving}
	seen := map[uint64]bool{}
	for _, d := range domains {
		for _, n := range []uint64{0, 1, 2, 1 << 20, 1<<56 - 1} {
			seed := Seed(d, n)
			if seen[seed] {
				t.Errorf("seed %d of domain %d is another's", n, d)
			}
			seen[seed] = true
			if Domain(seed>>56) != d {
				t.Errorf("seed %#x is not of domain %d", seed, d)
			}
		}
	}
	// mix loses nothing: each of its steps can be undone.
	undo := func(x uint64) uint64 {
		x ^= x>>31 ^ x>>62
		x *= 0x319642b2d24d8ec3
		x ^= x>>27 ^ x>>54
		x *= 0x96de1b173f119089
		x ^= x>>30 ^ x>>60
		return x - 0x9e3779b97f4a7c15
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		if x := rng.Uint64(); undo(splitmix.Next(x)) != x {
			t.Fatalf("mix(%#x) cannot be undone", x)
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	for name, p := range processes() {
		s, err := New(p, fourTasks, optShape, 1, Limit{Requests: 1e9})
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(1000, func() { s.Next() }); n != 0 {
			t.Errorf("%s: %v allocations a request", name, n)
		}
	}
}

// BenchmarkNext is one request of each kind of process:
//
//	go test ./workloads -run '^$' -bench Next
func BenchmarkNext(b *testing.B) {
	all := processes()
	for _, name := range []string{"poisson", "gamma", "weibull", "mmpp", "u1", "u2", "u2-uniform", "switching"} {
		b.Run(name, func(b *testing.B) {
			s, err := New(all[name], fourTasks, optShape, 1, Limit{Requests: 1 << 40})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Next()
			}
		})
	}
}
