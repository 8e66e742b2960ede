package workloads

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/fleet"
)

var twoTasks = []fleet.Task{{Name: "chat"}, {Name: "search"}}

// tokens is the simplest shape.
var tokens = Shape{
	Prompt: Lengths{Distribution: "constant", Value: 90},
	Output: Lengths{Distribution: "constant", Value: 256},
}

func open(t testing.TB, p Process, seed uint64, limit Limit) Stream {
	t.Helper()
	s, err := New(p, twoTasks, tokens, seed, limit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// near checks got against want, within a relative tolerance.
func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s is %.5g; want %.5g ± %g %%", what, got, want, 100*tolerance)
	}
}

// must unwraps a constructor of a valid process.
func must[P Process](p P, err error) P {
	if err != nil {
		panic(err)
	}
	return p
}

// dispersion is the IDC where it has to be known.
func dispersion(t testing.TB, p Process, window time.Duration) float64 {
	t.Helper()
	idc, known := p.IDC(window)
	if !known {
		t.Fatalf("%T does not know its IDC at %v", p, window)
	}
	return idc
}

// countIDC measures the IDC of the first n whole windows of that width.
func countIDC(p Process, rng *rand.Rand, width time.Duration, n int) float64 {
	w := windows{width: width}
	for times := p.Times(rng); ; {
		at, _, ok := times()
		if !ok || at >= time.Duration(n)*width {
			w.arrive(time.Duration(n) * width) // closes the last whole window
			return w.idc()
		}
		w.arrive(at)
	}
}

func TestRenewalProcesses(t *testing.T) {
	cases := map[string]struct {
		process Process
		rate    float64
		cv      float64
	}{
		"poisson":            {must(NewPoisson(7)), 7, 1},
		"gamma, regular":     {must(NewGamma(3, 0.5)), 3, 0.5},
		"gamma, exponential": {must(NewGamma(3, 1)), 3, 1},
		"gamma, clustered":   {must(NewGamma(0.5, 3)), 0.5, 3},
		"weibull, regular":   {must(NewWeibull(3, 0.5)), 3, 0.5},
		"weibull, memoryless": {
			must(NewWeibull(40, 1)), 40, 1},
		"weibull, clustered": {must(NewWeibull(0.5, 2)), 0.5, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			near(t, "own mean rate", c.process.MeanRate(), c.rate, 1e-12)
			near(t, "own asymptotic IDC", dispersion(t, c.process, Forever), c.cv*c.cv, 1e-9)
			m := Measure(open(t, c.process, Seed(Evaluation, 1), Limit{Requests: 300_000}))
			near(t, "mean rate", m.MeanRate, c.rate, 0.015)
			near(t, "gap CV", m.GapCV, c.cv, 0.015)
			// 400 gaps a window are near enough to the limit.
			window := time.Duration(400 / c.rate * float64(time.Second))
			idc := countIDC(c.process, source(Seed(Evaluation, 2), arrivalPart), window, 4000)
			near(t, "IDC of long windows", idc, c.cv*c.cv, 0.12)
		})
	}
}

// The gaps of Weibull and Gamma arrivals are of the right family, not just of
// the right two moments: the median tells them apart.
func TestRenewalMedians(t *testing.T) {
	// Gamma with c = √2 is χ² with one degree of freedom: median 0.45494 means.
	// Weibull with k = 1/2 has c = √5, and median (ln 2)² / Γ(3) means.
	for name, c := range map[string]struct {
		process Process
		median  float64
	}{
		"gamma":   {must(NewGamma(1, math.Sqrt2)), 0.45494},
		"weibull": {must(NewWeibull(1, math.Sqrt(5))), math.Ln2 * math.Ln2 / 2},
	} {
		times, below := c.process.Times(source(3, arrivalPart)), 0
		const n = 100_000
		var last time.Duration
		for range n {
			at, _, _ := times()
			if (at - last).Seconds() < c.median {
				below++
			}
			last = at
		}
		near(t, name+": share below the median", float64(below)/n, 0.5, 0.01)
	}
}

func TestWeibullShape(t *testing.T) {
	near(t, "shape of c = 1", weibullShape(1), 1, 1e-9)
	near(t, "shape of c = √5", weibullShape(math.Sqrt(5)), 0.5, 1e-9)
	for _, cv := range []float64{minCV, 0.1, 3, maxCV} {
		k := weibullShape(cv)
		near(t, "c at the shape found", math.Sqrt(weibullCV2(k)), cv, 1e-9)
	}
}

// Two phases have the closed form of IDC(t) = 1 + A − A(1−e^{−rt})/(rt).
func TestMMPP2(t *testing.T) {
	const l1, l2, r1, r2 = 2.0, 20.0, 0.1, 0.4
	p := must(NewMMPP([][]float64{{-r1, r1}, {r2, -r2}}, []float64{l1, l2}))
	r := r1 + r2
	a := 2 * (l1 - l2) * (l1 - l2) * r1 * r2 / (r * r * (l1*r2 + l2*r1))
	near(t, "own mean rate", p.MeanRate(), (l1*r2+l2*r1)/r, 1e-12)
	near(t, "own asymptotic IDC", dispersion(t, p, Forever), 1+a, 1e-9)
	for _, window := range []time.Duration{time.Second, 10 * time.Second} {
		x := r * window.Seconds()
		near(t, "own IDC", dispersion(t, p, window), 1+a-a*(1-math.Exp(-x))/x, 1e-9)
	}
	m := Measure(open(t, p, Seed(Evaluation, 1), Limit{Duration: 200_000 * time.Second}))
	near(t, "mean rate", m.MeanRate, p.MeanRate(), 0.02)
	near(t, "IDC(1 s)", m.IDC1, dispersion(t, p, time.Second), 0.03)
	near(t, "IDC(10 s)", m.IDC10, dispersion(t, p, 10*time.Second), 0.04)
	long := countIDC(p, source(Seed(Evaluation, 2), arrivalPart), 400*time.Second, 2000)
	near(t, "IDC(400 s)", long, dispersion(t, p, 400*time.Second), 0.08)
}

// Three phases that follow in a circle, one of them silent, exercise the general
// solution, for which there is no formula to hold it against but the simulation.
func TestMMPP3(t *testing.T) {
	q := [][]float64{{-0.5, 0.5, 0}, {0, -1, 1}, {0.25, 0, -0.25}}
	p := must(NewMMPP(q, []float64{0, 4, 16}))
	near(t, "own mean rate", p.MeanRate(), (2*0+1*4+4*16)/7.0, 1e-12) // sojourns of 2, 1 and 4 s
	near(t, "IDC of a short window", dispersion(t, p, time.Millisecond), 1, 0.02)
	near(t, "IDC of a long window", dispersion(t, p, 1e6*time.Second), dispersion(t, p, Forever), 1e-4)
	m := Measure(open(t, p, 1, Limit{Duration: 100_000 * time.Second}))
	near(t, "mean rate", m.MeanRate, p.MeanRate(), 0.02)
	near(t, "IDC(1 s)", m.IDC1, dispersion(t, p, time.Second), 0.03)
	near(t, "IDC(10 s)", m.IDC10, dispersion(t, p, 10*time.Second), 0.05)
}

func TestSchedule(t *testing.T) {
	p := must(NewSchedule(Phase{20, 500 * time.Second}, Phase{0, 500 * time.Second}, Phase{5, 1000 * time.Second}))
	near(t, "own mean rate", p.MeanRate(), 7.5, 1e-12)
	var counts [3]int
	s := open(t, p, 1, Limit{})
	for a, ok := s.Next(); ok; a, ok = s.Next() {
		phase := min(int(a.At/(500*time.Second)), 2)
		counts[phase]++
		if want := p.phases[phase].Rate; a.Rate != want {
			t.Fatalf("the rate at %v is %v; want %v", a.At, a.Rate, want)
		}
		if a.At >= 2000*time.Second {
			t.Fatalf("a request at %v, after the end", a.At)
		}
	}
	near(t, "requests of the first phase", float64(counts[0]), 10_000, 0.03)
	near(t, "requests of the last phase", float64(counts[2]), 5_000, 0.04)
	if counts[1] != 0 {
		t.Errorf("%d requests in the silent phase", counts[1])
	}
	if _, ok := s.Next(); ok {
		t.Error("the stream went on after its end")
	}
}

func TestStable(t *testing.T) {
	p := must(NewStable(48, 40*time.Second))
	var n int
	for seed := range uint64(100) {
		s := open(t, p, seed, Limit{})
		for a, ok := s.Next(); ok; a, ok = s.Next() {
			n++
			if a.Rate != 48 || a.At >= 40*time.Second {
				t.Fatalf("arrival %+v; want rate 48, before 40 s", a)
			}
		}
		if _, ok := s.Next(); ok {
			t.Fatal("the stream went on after its end")
		}
	}
	near(t, "requests in 40 s", float64(n)/100, 48*40, 0.01)
}

func TestRandomSwitching(t *testing.T) {
	load := Load{MinRate: 0.25, MaxRate: 48, UniformShare: 0.3, MinPhase: 10, MaxPhase: 60, MinPhaseRequests: 20}
	p := must(NewRandomSwitching(load))
	const requests = 2_000_000
	m := Measure(open(t, p, 1, Limit{Requests: requests}))
	// The count has a relative standard deviation of √(IDC/requests).
	near(t, "mean rate", m.MeanRate, p.MeanRate(), 2.5*math.Sqrt(dispersion(t, p, Forever)/requests))
	long := countIDC(p, source(2, arrivalPart), 2000*time.Second, 400)
	near(t, "IDC of long windows", long, dispersion(t, p, Forever), 0.15)

	var low, slow int
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 100_000
	for range n {
		rate, seconds := load.phase(rng)
		if rate < load.MinRate || rate > load.MaxRate || seconds < 10 || seconds > max(60, 20/rate) || seconds*rate < 20-1e-9 {
			t.Fatalf("a phase of %v/s for %v s", rate, seconds)
		}
		if seconds == 20/rate {
			slow++
		}
		if rate < math.Sqrt(0.25*48) { // the middle of the logarithms
			low++
		}
	}
	want := 0.7*0.5 + 0.3*(math.Sqrt(12)-0.25)/47.75
	near(t, "share of low rates", float64(low)/n, want, 0.02)
	if slow == 0 {
		t.Error("no slow phase was extended")
	}
}

func TestConstructorsRefuse(t *testing.T) {
	ok := [][]float64{{-1, 1}, {1, -1}}
	fails := map[string]error{}
	_, fails["rate of zero"] = NewPoisson(0)
	_, fails["rate that is no number"] = NewPoisson(math.NaN())
	_, fails["rate beyond the clock"] = NewGamma(1e9, 1)
	_, fails["CV of zero"] = NewGamma(1, 0)
	_, fails["negative CV"] = NewWeibull(1, -1)
	_, fails["no phase"] = NewSchedule()
	_, fails["phase of no time"] = NewSchedule(Phase{1, 0})
	_, fails["negative rate"] = NewSchedule(Phase{-1, time.Second})
	_, fails["stable for no time"] = NewStable(1, 0)
	_, fails["one phase"] = NewMMPP([][]float64{{0}}, []float64{1})
	_, fails["rows that do not sum to zero"] = NewMMPP([][]float64{{-1, 2}, {1, -1}}, []float64{1, 2})
	_, fails["negative jump rate"] = NewMMPP([][]float64{{1, -1}, {1, -1}}, []float64{1, 2})
	_, fails["ragged generator"] = NewMMPP([][]float64{{-1, 1}, {1}}, []float64{1, 2})
	_, fails["phase without return"] = NewMMPP([][]float64{{-1, 1}, {0, 0}}, []float64{1, 2})
	_, fails["phase never reached"] = NewMMPP([][]float64{{0, 0}, {1, -1}}, []float64{1, 2})
	_, fails["MMPP without arrivals"] = NewMMPP(ok, []float64{0, 0})
	_, fails["empty load"] = NewRandomSwitching(Load{})
	for what, err := range fails {
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

// At the ends of the permitted range the clock neither runs back nor wraps.
func TestExtremes(t *testing.T) {
	for _, p := range []Process{
		must(NewPoisson(minRate)), must(NewPoisson(maxRate)),
		must(NewGamma(minRate, maxCV)), must(NewGamma(maxRate, minCV)),
		must(NewWeibull(minRate, maxCV)), must(NewWeibull(maxRate, minCV)),
		must(NewMMPP([][]float64{{-minRate, minRate}, {maxRate, -maxRate}}, []float64{0, minRate})),
	} {
		times := p.Times(source(1, arrivalPart))
		var last time.Duration
		for range 100_000 {
			at, _, ok := times()
			if !ok {
				break // 292 years are over
			}
			if at < last {
				t.Fatalf("%T: time ran back from %v to %v", p, last, at)
			}
			last = at
		}
	}
}
