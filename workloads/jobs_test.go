package workloads

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func day() JobLoad {
	return JobLoad{Length: 10 * time.Minute, Least: 5, Most: 60, Mean: 1, Spread: 6, Largest: 16, Deadline: time.Second, FloorLow: 0.6, FloorHigh: 0.8}
}

func drawn(t *testing.T, l JobLoad, seed uint64) []JobArrival {
	t.Helper()
	all, err := l.Draw(seed)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDay: rates reach from the least to the most, jobs are in order, sizes and floors
// within their bounds, and the same seed draws the same jobs.
func TestDay(t *testing.T) {
	l := day()
	all, err := l.Draw(3)
	if err != nil {
		t.Fatal(err)
	}
	perSecond := make([]float64, int(l.Length/time.Second))
	largest := 0
	for i, a := range all {
		if a.Size < 1 || a.Size > l.Largest || a.Floor < 0.6 || a.Floor > 0.8 || a.Deadline != a.At+time.Second {
			t.Fatalf("job %d is %+v", i, a)
		}
		if i > 0 && a.At < all[i-1].At {
			t.Fatalf("job %d comes at %v, before the one before", i, a.At)
		}
		perSecond[a.At/time.Second] += float64(a.Size)
		largest = max(largest, a.Size)
	}
	if low, high := slices.Min(perSecond), slices.Max(perSecond); low < 4 || low > 7 || high < 58 || high > 61 {
		t.Errorf("rates from %v to %v, want about 5 to 60", low, high)
	}
	if largest != l.Largest {
		t.Errorf("the largest job has %d requests: none was split", largest)
	}
	again, _ := l.Draw(3)
	other, _ := l.Draw(4)
	if !slices.Equal(all, again) || slices.Equal(all, other) {
		t.Error("the seed does not decide the jobs")
	}
}

// TestConstantRate: every second has as many requests.
func TestConstantRate(t *testing.T) {
	l := day()
	l.Shape, l.Most = ConstantJobs, 37.5
	all, err := l.Draw(1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, a := range all {
		n += a.Size
	}
	if want := 37.5 * 600; math.Abs(float64(n)-want) > 1 {
		t.Errorf("%d requests, want %v", n, want)
	}
}

// TestSizes: of a normal distribution of mean 1 and deviation 6, rounded, at least 1: the
// mean is 2.93 where nothing cuts it.
func TestSizes(t *testing.T) {
	l := day()
	l.Largest, l.Least, l.Most, l.Length = 0, 5000, 5000, 20*time.Second
	all, err := l.Draw(1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, a := range all {
		n += a.Size
	}
	var want float64
	for size := 1; size < 60; size++ {
		cdf := func(x float64) float64 { return 0.5 * math.Erfc(-(x-1)/6/math.Sqrt2) }
		p := cdf(float64(size)+0.5) - cdf(float64(size)-0.5)
		if size == 1 {
			p = cdf(1.5)
		}
		want += float64(size) * p
	}
	if got := float64(n) / float64(len(all)); math.Abs(got/want-1) > 0.02 {
		t.Errorf("mean size %.3f, by theory %.3f", got, want)
	}
}

func TestBadLoads(t *testing.T) {
	l := JobLoad{Length: time.Second, Least: 2, Most: 1, Deadline: time.Second}
	if _, err := l.Draw(1); err == nil || err.Error() != "cannot draw jobs: rates from 2 to 1: want 0 ≤ least ≤ most < 1e6" {
		t.Errorf("got %v", err)
	}
}

// TestPoissonJobs: jobs that come one by one have the rate in the mean, and as many in a
// second as a Poisson process has.
func TestPoissonJobs(t *testing.T) {
	l := day()
	l.Length, l.Shape, l.Poisson, l.Most, l.Largest = 4000*time.Second, ConstantJobs, true, 40, 0
	counts := make([]float64, 4000)
	var requests float64
	for _, a := range drawn(t, l, 3) {
		counts[a.At/time.Second]++
		requests += float64(a.Size)
	}
	var mean, square float64
	for _, n := range counts {
		mean, square = mean+n/4000, square+n*n/4000
	}
	if math.Abs(requests/4000-40) > 1 || math.Abs((square-mean*mean)/mean-1) > 0.08 {
		t.Errorf("%.1f requests per second, and a dispersion of jobs of %.3f; want 40 and 1", requests/4000, (square-mean*mean)/mean)
	}
}

// TestSwitchingRates: the rate is the least or the most, the most in a fifth of the time.
func TestSwitchingRates(t *testing.T) {
	l := day()
	l.Length, l.Shape = 20_000*time.Second, SwitchingJobs
	rates := l.rates(rand.New(rand.NewPCG(1, 1)))
	most := 0
	for _, r := range rates {
		if r == l.Most {
			most++
		} else if r != l.Least {
			t.Fatalf("rate %v", r)
		}
	}
	if share := float64(most) / float64(len(rates)); math.Abs(share-0.21) > 0.03 {
		t.Errorf("the most in %.3f of the time", share)
	}
}

// TestGivenRates: the rates of a trace replace those of the shape.
func TestGivenRates(t *testing.T) {
	l := day()
	l.Rates = []float64{0, 7, 0, 12}
	counts := make([]int, 4)
	for _, a := range drawn(t, l, 1) {
		counts[a.At/time.Second] += a.Size
	}
	if !slices.Equal(counts, []int{0, 7, 0, 12}) {
		t.Errorf("requests by second: %v", counts)
	}
	l.Rates[2] = -1
	if _, err := l.Draw(1); err == nil || err.Error() != "cannot draw jobs: rates[2]: -1: want 0 ≤ rate < 1e6" {
		t.Errorf("%v", err)
	}
	l.Rates, l.Shape = nil, "wave"
	if _, err := l.Draw(1); err == nil || err.Error() != `cannot draw jobs: shape: "wave"; want "day", "constant" or "switching"` {
		t.Errorf("%v", err)
	}
}
