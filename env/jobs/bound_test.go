package jobs

import (
	"math"
	"testing"
	"time"

	"gearshift/router/modality"
	"gearshift/workloads"
)

// TestBoundOfFewJobs: by hand, with 3 ms for a request of audio and 33.3 ms for both.
func TestBoundOfFewJobs(t *testing.T) {
	table, err := modality.NewTable(options(2), modality.Mixed, 2)
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	for name, c := range map[string]struct {
		jobs []workloads.JobArrival
		want float64
	}{
		"one":            {[]workloads.JobArrival{{Size: 1, Floor: 0.5, Deadline: 40 * ms}}, 0.8},
		"too little":     {[]workloads.JobArrival{{Size: 1, Floor: 0.75, Deadline: 30 * ms}}, 0},
		"two, one fast":  {[]workloads.JobArrival{{Size: 1, Floor: 0.5, Deadline: 40 * ms}, {Size: 1, Floor: 0.5, Deadline: 40 * ms}}, 0.8 + 0.67},
		"one is dropped": {[]workloads.JobArrival{{Size: 1, Floor: 0.75, Deadline: 40 * ms}, {Size: 2, Floor: 0.75, Deadline: 70 * ms}}, 1.6},
		"two by turns":   {[]workloads.JobArrival{{Size: 1, Floor: 0.75, Deadline: 40 * ms}, {At: 40 * ms, Size: 1, Floor: 0.75, Deadline: 80 * ms}}, 1.6},
	} {
		if got := Bound(table, c.jobs); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if Bound(table, nil) != 0 {
		t.Error("no jobs are worth something")
	}
}

// TestNoPolicyBeatsTheBound: on drawn days, and it is not idle: little is above what the
// plan has at a low load.
func TestNoPolicyBeatsTheBound(t *testing.T) {
	for seed := range uint64(6) {
		l := load()
		l.Length, l.Most = 40*time.Second, 20+30*float64(seed)
		arrivals := draw(t, l, seed)
		table, err := modality.NewTable(options(16), modality.Mixed, 16)
		if err != nil {
			t.Fatal(err)
		}
		bound := Bound(table, arrivals)
		for name, p := range map[string]modality.Policy{"foresight": modality.NewForesighted(table, 2), "aggressive": modality.NewAggressive(table)} {
			r, err := Run(Config{Dispatcher: modality.NewDispatcher(table, p), Options: options(16)}, arrivals, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.QualityInTime > bound+1e-6 {
				t.Errorf("seed %d: %s has %v, the bound is %v", seed, name, r.QualityInTime, bound)
			}
			if share := r.QualityInTime / bound; name == "foresight" && share < 0.7 {
				t.Errorf("seed %d: foresight has %.3f of the bound", seed, share)
			}
		}
	}
}
