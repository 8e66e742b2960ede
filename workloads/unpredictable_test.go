package workloads

import (
	"math"
	"testing"
	"time"
)

// TestU1 holds the first unpredictable workload against the numbers that follow
// from the paper's definition (LBE-20).
func TestU1(t *testing.T) {
	near(t, "own mean rate", U1{}.MeanRate(), 3.5725, 1e-9)
	near(t, "own IDC(1 s)", dispersion(t, U1{}, time.Second), 20.9, 0.003)
	near(t, "own IDC(10 s)", dispersion(t, U1{}, 10*time.Second), 173.6, 0.001)
	near(t, "own asymptotic IDC", dispersion(t, U1{}, Forever), 811, 0.001)

	m := Measure(open(t, U1{}, Seed(Evaluation, 2), Limit{Requests: 4_000_000}))
	near(t, "mean rate", m.MeanRate, 3.5725, 0.04)
	near(t, "gap CV", m.GapCV, u1GapCV(), 0.03)
	near(t, "IDC(1 s)", m.IDC1, dispersion(t, U1{}, time.Second), 0.03)
	near(t, "IDC(10 s)", m.IDC10, dispersion(t, U1{}, 10*time.Second), 0.03)
	near(t, "IDC(2000 s)", countIDC(U1{}, source(5, arrivalPart), 2000*time.Second, 1000),
		dispersion(t, U1{}, 2000*time.Second), 0.12)
}

// u1GapCV is that of gaps which are exponential at the rate of their segment,
// with as many of them as the segment has requests, 20 × rate.
func u1GapCV() float64 {
	var inverse float64 // E[1/λ]
	for _, b := range u1Bands {
		inverse += b.share * math.Log(b.hi/b.lo) / (b.hi - b.lo)
	}
	return math.Sqrt(2*inverse*U1{}.MeanRate() - 1)
}

// The requests of a U1 segment: 71.45 on average in 20 s, and 28.3/47.0/24.6 %
// of all at low, middle and high rates.
func TestU1Segments(t *testing.T) {
	near(t, "gap CV by closed form", u1GapCV(), 2.59, 0.003)
	times := U1{}.Times(source(Seed(Evaluation, 1), arrivalPart))
	const n = 150_000
	var segments, requests float64
	var last float64
	var end time.Duration
	var byBand [3]float64
	for {
		at, rate, _ := times()
		if rate != last { // rates are real numbers: two segments never share one
			if segments == n {
				break
			}
			segments++
			last = rate
		}
		requests++
		end = at
		switch {
		case rate < 2:
			byBand[0]++
		case rate < 40:
			byBand[1]++
		default:
			byBand[2]++
		}
	}
	near(t, "requests a segment", requests/n, 71.45, 0.025)
	near(t, "seconds a segment", end.Seconds()/n, 20, 0.01)
	for i, want := range []float64{0.283, 0.470, 0.246} {
		near(t, "share of a band", byBand[i]/requests, want, 0.03)
	}
}

// P(N ≥ k) = (1−1/mean)^(k−1).
func TestGeometric(t *testing.T) {
	const mean, n = 10.0, 200_000
	rng := source(1, arrivalPart)
	var sum float64
	ks := []int{2, 10, 30}
	atLeast := make([]float64, len(ks))
	for range n {
		x := geometric(rng, mean)
		if x < 1 {
			t.Fatalf("drew %d", x)
		}
		sum += float64(x)
		for i, k := range ks {
			if x >= k {
				atLeast[i]++
			}
		}
	}
	near(t, "mean", sum/n, mean, 0.01)
	for i, k := range ks {
		near(t, "tail", atLeast[i]/n, math.Pow(1-1/mean, float64(k-1)), 0.02)
	}
	if x := geometric(rng, 1); x != 1 {
		t.Errorf("with a mean of 1 drew %d", x)
	}
}

// TestU2 holds both readings of the second unpredictable workload (LBE-21).
func TestU2(t *testing.T) {
	p := U2{}
	near(t, "own mean rate", p.MeanRate(), 1000/(500+500/48.0), 1e-9)
	twin := must(NewMMPP([][]float64{{-1.0 / 500, 1.0 / 500}, {48.0 / 500, -48.0 / 500}}, []float64{1, 48}))
	for _, window := range []time.Duration{time.Second, 10 * time.Second, Forever} {
		near(t, "own IDC", dispersion(t, p, window), dispersion(t, twin, window), 1e-9)
	}
	m := Measure(open(t, p, Seed(Evaluation, 1), Limit{Requests: 4_000_000}))
	near(t, "mean rate", m.MeanRate, 1.96, 0.035)
	near(t, "gap CV", m.GapCV, 1.69, 0.02)
	near(t, "IDC(1 s)", m.IDC1, dispersion(t, p, time.Second), 0.04)
	near(t, "IDC(10 s)", m.IDC10, dispersion(t, p, 10*time.Second), 0.04)
}

func TestU2Switches(t *testing.T) {
	const seeds = 400
	var changes, high, first, n float64
	for seed := range uint64(seeds) {
		s := open(t, U2{}, Seed(Evaluation, seed), Limit{Requests: 10_000})
		var last Arrival
		for a, ok := s.Next(); ok; a, ok = s.Next() {
			if a.Rate != 1 && a.Rate != 48 {
				t.Fatalf("rate %v; want 1 or 48", a.Rate)
			}
			if last.Rate == 0 && a.Rate == 48 {
				first++
			}
			if last.Rate != 0 && a.Rate != last.Rate {
				changes++
			}
			if a.Rate == 48 {
				high++
			}
			n++
			last = a
		}
	}
	// A run of 10,000 requests has 20 phases of 500, so as many switches.
	near(t, "switches a run", changes/seeds, 20, 0.05)
	near(t, "share of requests at the high rate", high/n, 0.5, 0.04)
	near(t, "share of runs that begin high", first/seeds, 0.5, 0.12)
}

func TestU2Uniform(t *testing.T) {
	p := U2Uniform{}
	near(t, "own mean rate", p.MeanRate(), 12.14, 0.001)
	m := Measure(open(t, p, Seed(Evaluation, 3), Limit{Requests: 4_000_000}))
	near(t, "mean rate", m.MeanRate, p.MeanRate(), 0.05)
	long := countIDC(p, source(4, arrivalPart), 3000*time.Second, 400)
	near(t, "IDC of long windows", long, dispersion(t, p, Forever), 0.25)
	if _, known := p.IDC(time.Second); known {
		t.Error("the IDC at 1 s is said to be known")
	}
}
