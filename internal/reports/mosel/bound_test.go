package mosel

import (
	"math"
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
		if got := boundOf(table, c.jobs); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if boundOf(table, nil) != 0 {
		t.Error("no jobs are worth something")
	}
}

// TestNoPolicyBeatsTheBound: on drawn days, and it is not idle: little is above what the
// plan has at a low load.
func TestNoPolicyBeatsTheBound(t *testing.T) {
	for seed := range uint64(6) {
		l := workloads.JobLoad{Length: 40 * time.Second, Least: 5, Most: 20 + 30*float64(seed), Mean: 1, Spread: 6, Largest: 16, Deadline: time.Second, FloorLow: 0.67, FloorHigh: 0.8}
		arrivals, err := l.Draw(seed)
		if err != nil {
			t.Fatal(err)
		}
		table, err := modality.NewTable(options(16), modality.Mixed, 16)
		if err != nil {
			t.Fatal(err)
		}
		bound := boundOf(table, arrivals)
		for name, p := range map[string]modality.Policy{"foresight": modality.NewForesighted(table, 2), "aggressive": modality.NewAggressive(table)} {
			j, err := env.NewJobs(modality.NewWorker(table, p), options(16), nil, arrivals)
			if err != nil {
				t.Fatal(err)
			}
			r, err := j.Run()
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
