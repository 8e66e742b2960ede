package scenario_test

import (
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/env/streams"
	"gearshift/router/fleet"
)

// A file has failover, changes of version, rebalancing and jobs at once: what failover places has replicas that
// take turns, and the variants of a model that jobs use share an engine, which stays up on every host.
func TestAllSystemsInOneScenario(t *testing.T) {
	text, err := os.ReadFile("testdata/together.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, string(text))
	if _, moves := s.Rebalancing(); s.Failover() == nil || s.Rollout() == nil || !moves {
		t.Fatal("a section is missing")
	}
	seconds, engines := 0, map[int]bool{}
	for i, r := range s.ServingTable().Replicas {
		e, shared, want := s.Serving.Upstreams[r.Name], strings.HasPrefix(r.Name, "digits"), fleet.Cold
		if shared || r.Name == "large@h1" {
			want = fleet.Up
		}
		if r.Initial != want {
			t.Errorf("%s is %v at the start, want %v", r.Name, r.Initial, want)
		}
		if s.Second(i) {
			seconds++
		}
		if shared {
			engines[r.Worker] = true
		}
		if shared && (e.Model != "digits" || e.Lifecycle != "") || !shared && e.Lifecycle != "gearshift" {
			t.Errorf("%s: %+v, want digits in engines that stay as they are, and the others in engines that load", r.Name, e)
		}
	}
	if seconds != 6 || len(engines) != 3 {
		t.Errorf("%d replicas that take turns, want 6: small and large on three hosts; engines of digits: %v, want three", seconds, engines)
	}
	models, _ := s.Versioned()
	if len(models) != 2 || len(models[0].Locations) != 3 {
		t.Errorf("versions: %+v", models)
	}
}

// In a run of that file a policy routes chat, and requests of digits come as jobs, which the controllers that serve
// move no more than they need: while a host is lost the others answer them, and every request is accounted for.
func TestJobsInOneRun(t *testing.T) {
	const requests = 1500
	text, err := os.ReadFile("testdata/together.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, string(text))
	play := func() []evaluation.Result {
		return played(t, s, "threshold", requests, 2, "poisson:40", "poisson:40+lost:h1@10-20+version:small=2@25", "poisson:2000")
	}
	results := play()
	for i, r := range results {
		c := r.Served.Controllers
		digits := (r.Share["digits-image"] + r.Share["digits-audio"] + r.Share["digits-image-audio"]) * requests
		if answered := c["jobs in time"] + c["jobs late"]; r.Requests != 2*requests || math.Abs(answered-digits) > 0.5 || answered < 500 || i < 2 && c["jobs dropped"] > 0 {
			t.Errorf("%s: %d requests, %v by digits, and %v", r.Workload, r.Requests, digits, r.Served.Acted())
		}
	}
	if best, little := results[0].Share["digits-image-audio"], results[2].Share["digits-image"]; best < 0.6 || little < 0.1 {
		t.Errorf("shares %v with time for all inputs, and %v without", results[0].Share, results[2].Share)
	}
	if c := results[1].Served.Controllers; c["failovers"] != 1 {
		t.Errorf("with a host lost: %v", results[1].Served.Acted())
	}
	for i, again := range play() {
		if again.SimRequestsPerS = results[i].SimRequestsPerS; !reflect.DeepEqual(again, results[i]) {
			t.Errorf("%s comes to something else a second time", again.Workload)
		}
	}
}

// Batches of frames keep the invariants of the simulator beside requests that are routed, while a host is lost, and the
// requests end although clients go on.
func TestStreamsKeepTheInvariants(t *testing.T) {
	text, err := os.ReadFile("testdata/streaming.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, string(text))
	config, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Evaluated([]string{"poisson:10+lost:h1@10-20+streams:20,0.06,lte,8"}, 300)
	if err != nil {
		t.Fatal(err)
	}
	if config.Check, config.Open = true, list[0].Open; list[0].Perturb(&config) != nil || config.Beside == nil {
		t.Fatal("nobody streams")
	}
	e, err := env.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	ended, mask := 0, make([]bool, e.Actions())
	for over := false; !over; {
		e.ActionMask(mask)
		step, err := e.Step(slices.Index(mask, true))
		if err != nil {
			t.Fatal(err)
		}
		ended, over = ended+len(step.Info.Outcomes), step.Terminated
	}
	if n := e.Simulator().InFlight(); ended != 300 || n != 0 {
		t.Errorf("%d requests ended of 300, and %d are under way", ended, n)
	}
	r := e.Beside().(interface {
		Result(now time.Duration) *streams.Result
	}).Result(e.Simulator().Now())
	if r.Clients < 15 || r.Moved.N < 5 || r.Moved.Most > 0.3 {
		t.Errorf("%+v; want 20 clients, of which those of a host move within 0.3 s", r)
	}
}
