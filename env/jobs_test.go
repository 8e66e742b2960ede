package env_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// options is a model of two inputs: both take eleven times as long as the first alone.
func options(most int) []modality.Option {
	list := []modality.Option{{Name: "audio", Quality: 0.67}, {Name: "video", Quality: 0.70}, {Name: "both", Quality: 0.80}}
	for i, each := range []float64{3, 20, 100. / 3} {
		for n := range most {
			list[i].Latency = append(list[i].Latency, each*float64(n+1))
		}
	}
	return list
}

func load() workloads.JobLoad {
	return workloads.JobLoad{Length: 2 * time.Minute, Least: 5, Most: 60, Mean: 1, Spread: 6, Largest: 16, Deadline: time.Second, FloorLow: 0.67, FloorHigh: 0.8}
}

func draw(t *testing.T, l workloads.JobLoad, seed uint64) []workloads.JobArrival {
	t.Helper()
	all, err := l.Draw(seed)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// play runs the policy that make makes of the table.
func play(t *testing.T, arrivals []workloads.JobArrival, make func(*modality.Table) (modality.Policy, error), noise func() float64) (*env.Jobs, *env.JobsResult, []env.JobOutcome) {
	t.Helper()
	table, err := modality.NewTable(options(16), modality.Mixed, 16)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := make(table)
	if err != nil {
		t.Fatal(err)
	}
	j, err := env.NewJobs(modality.NewWorker(table, policy), options(16), noise, arrivals)
	if err != nil {
		t.Fatal(err)
	}
	var all []env.JobOutcome
	j.Window, j.Ended = 4*time.Second, func(o env.JobOutcome) { all = append(all, o) }
	r, err := j.Run()
	if err != nil {
		t.Fatal(err)
	}
	if n := r.InTime + r.Late + r.Dropped; n != r.Requests || len(all) != len(arrivals) {
		t.Fatalf("%d requests of %d and %d jobs of %d ended", n, r.Requests, len(all), len(arrivals))
	}
	return j, r, all
}

func optimized(t *modality.Table) (modality.Policy, error) {
	return modality.NewPlanner(t, modality.PrefixSafe)
}

func agnostic(t *modality.Table) (modality.Policy, error) { return modality.NewAgnostic(t), nil }

func aggressive(t *modality.Table) (modality.Policy, error) { return modality.NewAggressive(t), nil }

func randomly(t *modality.Table) (modality.Policy, error) {
	return modality.NewRandom(t, modality.StopByFinish, rand.New(rand.NewPCG(1, 2)))
}

// TestAgnosticIsAQueueOfOneServer: all jobs have the same time to their deadlines, so that
// they are answered in the order in which they come, and their ends follow Lindley's
// recursion.
func TestAgnosticIsAQueueOfOneServer(t *testing.T) {
	arrivals := draw(t, load(), 1)
	_, _, ends := play(t, arrivals, agnostic, nil)
	var free time.Duration
	late := 0
	for i, a := range arrivals {
		free = max(free, a.At) + time.Duration(float64(a.Size)*100/3*float64(time.Millisecond))
		if o := ends[i]; o.At != a.At || math.Abs((o.Finished-free).Seconds()) > 1e-6 {
			t.Fatalf("job %d came at %v and ended at %v, by the recursion at %v and %v", i, o.At, o.Finished, a.At, free)
		}
		if free > a.Deadline {
			late++
		}
	}
	if late < len(arrivals)/10 {
		t.Errorf("%d of %d jobs are late: the test lost its load", late, len(arrivals))
	}
}

// TestPlansKeepWhatTheyPromise: where batches take what the table says, no job that a plan
// keeps is late or below its floor, and far more requests are answered in time than
// without a look at modalities.
func TestPlansKeepWhatTheyPromise(t *testing.T) {
	arrivals := draw(t, load(), 2)
	_, best, ends := play(t, arrivals, optimized, nil)
	if best.Late > 0 || best.BelowFloor > 0 {
		t.Errorf("%d requests late, %d jobs below their floor", best.Late, best.BelowFloor)
	}
	for _, o := range ends {
		if !o.Dropped && o.Quality < o.Floor-1e-9 {
			t.Fatalf("a job with a floor of %v got %v", o.Floor, o.Quality)
		}
	}
	_, none, _ := play(t, arrivals, agnostic, nil)
	if best.Goodput() < 1.5*none.Goodput() || best.Violations() > none.Violations() {
		t.Errorf("goodput %.1f/s with violations %.3f, agnostic %.1f/s with %.3f", best.Goodput(), best.Violations(), none.Goodput(), none.Violations())
	}
	for name, policy := range map[string]func(*modality.Table) (modality.Policy, error){"aggressive": aggressive, "random": randomly} {
		_, other, _ := play(t, arrivals, policy, nil)
		if other.MeanQuality() > best.MeanQuality() && other.Goodput() > best.Goodput() {
			t.Errorf("%s: quality %.3f at %.1f/s, the plan %.3f at %.1f/s", name, other.MeanQuality(), other.Goodput(), best.MeanQuality(), best.Goodput())
		}
	}
}

// TestSlowBatchesAreNoticed: batches take half as long again as the table says; the
// dispatcher corrects its estimates, and few jobs are late.
func TestSlowBatchesAreNoticed(t *testing.T) {
	arrivals := draw(t, load(), 3)
	j, r, _ := play(t, arrivals, optimized, func() float64 { return 1.5 })
	if slowness := j.Pool.Workers[0].Slowness(); math.Abs(slowness-1.5) > 0.01 {
		t.Errorf("slowness %v, want 1.5", slowness)
	}
	if share := float64(r.Late) / float64(r.Requests); share > 0.02 {
		t.Errorf("%.3f of the requests are late", share)
	}
}

// TestRunsRepeat: the same seed, the same ends; samples add up to the whole.
func TestRunsRepeat(t *testing.T) {
	arrivals := draw(t, load(), 4)
	_, a, first := play(t, arrivals, optimized, nil)
	_, _, second := play(t, arrivals, optimized, nil)
	for i := range first {
		if first[i].Finished != second[i].Finished || first[i].Quality != second[i].Quality {
			t.Fatalf("job %d ends at %v, again at %v", i, first[i].Finished, second[i].Finished)
		}
	}
	var in, violations int
	for _, s := range a.Samples {
		in, violations = in+s.InTime, violations+s.Violations
	}
	if in != a.InTime || violations != a.Late+a.Dropped {
		t.Errorf("samples have %d in time and %d violations, the run %d and %d", in, violations, a.InTime, a.Late+a.Dropped)
	}
}

// BenchmarkJobs simulates two minutes of jobs for a worker.
//
//	go test -bench Jobs ./env
func BenchmarkJobs(b *testing.B) {
	table, err := modality.NewTable(options(16), modality.Mixed, 16)
	if err != nil {
		b.Fatal(err)
	}
	l := load()
	arrivals, err := l.Draw(1)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"aggressive", "foresight"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				policy, err := modality.Named(name, table, nil)
				if err != nil {
					b.Fatal(err)
				}
				j, err := env.NewJobs(modality.NewWorker(table, policy), options(16), nil, arrivals)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := j.Run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(arrivals))/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
