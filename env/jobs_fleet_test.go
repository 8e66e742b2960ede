package env_test

import (
	"fmt"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/envtest"
	"gearshift/router"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// withJobs adds jobs to the fleet of classifiers, which both hosts answer by both variants. Each episode's
// are passed on.
func withJobs(t *testing.T, pass func(j *env.Jobs)) env.Config {
	t.Helper()
	c := classifying(t)
	c.Check = true
	shape := workloads.Shape{Prompt: workloads.Lengths{Distribution: "uniform", Min: 10, Max: 100}, Output: workloads.Lengths{Distribution: "none"}}
	poisson, err := workloads.NewPoisson(200)
	if err != nil {
		t.Fatal(err)
	}
	c.Open = func(seed uint64) (workloads.Stream, error) {
		return workloads.New(poisson, c.Table.Tasks, shape, seed, workloads.Limit{Requests: 2400})
	}
	c.Jobs = func(seed uint64) (*env.Jobs, error) {
		l := workloads.JobLoad{Length: 12 * time.Second, Least: 150, Most: 300, Mean: 2, Spread: 1, Largest: 4, Deadline: 200 * time.Millisecond, FloorLow: 0.5, FloorHigh: 0.9}
		arrivals, err := l.Draw(seed)
		if err != nil {
			return nil, err
		}
		j := &env.Jobs{Arrivals: arrivals, Pool: &modality.Pool{}}
		for h := range c.Table.Hosts {
			table, err := modality.NewTable([]modality.Option{{Name: "small", Quality: 0.6, Latency: []float64{8, 10, 12, 14}}, {Name: "large", Quality: 0.9, Latency: []float64{8, 10, 12, 14}}}, modality.Mixed, 4)
			if err != nil {
				return nil, err
			}
			j.Pool.Workers = append(j.Pool.Workers, modality.NewWorker(table, modality.NewForesighted(table, 5)))
			j.Workers = append(j.Workers, env.JobsWorker{Replicas: c.Table.ReplicasOn(h)})
		}
		pass(j)
		return j, nil
	}
	return c
}

// TestJobsBesideRequests: jobs and routed requests share engines. A host is lost and comes back: every
// request and every job ends once, what the lost host had of jobs the other answers, requests see batches in
// flight, and the same seed repeats.
func TestJobsBesideRequests(t *testing.T) {
	ended, seen := 0, 0
	var all []env.JobOutcome
	var made *env.Jobs
	c := withJobs(t, func(j *env.Jobs) {
		made, ended, all = j, 0, nil
		j.Ended = func(o env.JobOutcome) { ended, all = ended+o.Size, append(all, o) }
	})
	for at := 3; at < 9; at += 2 {
		c.Losses = append(c.Losses, env.HostLoss{Host: 0, From: time.Duration(at) * time.Second, To: time.Duration(at+1) * time.Second})
	}
	if err := envtest.Check(make2(t, c), 1, 3000); err != nil {
		t.Fatal(err)
	}
	play := func() string {
		requests, failed := 0, 0
		for _, o := range playLosses(t, c, func(e *env.Environment) {
			routed := 0
			e.Simulator().Each(func(int, int) { routed++ })
			if e.InFlight() > routed {
				seen++
			}
		}) {
			if requests++; o.Failed {
				failed++
			}
		}
		r := made.Result()
		if requests != 2400 || failed == 0 || ended != r.Requests || r.InTime+r.Late+r.Dropped != r.Requests || r.InTime < 7*r.Requests/10 {
			t.Errorf("%d requests of which %d failed, %d of jobs ended: %+v", requests, failed, ended, *r)
		}
		return fmt.Sprint(*r, all)
	}
	first := play()
	if second := play(); first != second {
		t.Error("the same seed plays other jobs")
	}
	during := 0
	for _, o := range all {
		if o.At > 3*time.Second && o.Finished < 4*time.Second && !o.Dropped {
			during++
		}
	}
	if during < 20 {
		t.Errorf("%d jobs are answered while a host is lost", during)
	}
	if seen < 100 {
		t.Errorf("%d requests have met a batch", seen)
	}
}

// TestRequestsThatComeAsJobs: as served, requests of a task whose requests come as jobs have no decision, and
// every request of the stream is one outcome, with a host lost and with an episode that is truncated.
func TestRequestsThatComeAsJobs(t *testing.T) {
	var made *env.Jobs
	c := withJobs(t, func(j *env.Jobs) {
		j.Arrivals, j.Answers = nil, []uint64{0, 3}
		made = j
	})
	c.AsServed = &env.AsServed{Limits: router.Limits{MaxQueue: 100, MaxWait: time.Second}}
	c.Losses = []env.HostLoss{{Host: 0, From: 3 * time.Second, To: 6 * time.Second}}
	for _, limit := range []int{0, 500} {
		c.Limit = limit
		decided, ended := 0, map[uint64]bool{}
		for _, o := range playLosses(t, c, func(e *env.Environment) {
			if decided++; e.Request().Task != 0 {
				t.Fatalf("a decision about %+v", *e.Request())
			}
		}) {
			if ended[o.Request.ID] {
				t.Errorf("request %d ended twice", o.Request.ID)
			}
			ended[o.Request.ID] = true
			if job := o.Request.Task == 1; job != (o.Decision < 0) && o.Refused == "" || job && o.Refused == "" && (o.Replica < 0 || o.Utility <= 0 && o.Met) {
				t.Errorf("%+v", o)
			}
		}
		r := made.Result()
		if limit == 0 && len(ended) != 2400 || limit > 0 && decided != limit || r.InTime < r.Requests*9/10 || r.InTime+r.Late+r.Dropped != r.Requests || r.Requests < decided/2 {
			t.Errorf("limit %d: %d decisions, %d requests ended, jobs %+v", limit, decided, len(ended), *r)
		}
	}
}
