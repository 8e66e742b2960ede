package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"gearshift/internal/calibrate/enginetest"
)

// A learned policy routes, jobs are planned, a host dies and comes back, what was lost is answered elsewhere and moves
// back, a version is replaced and a busy replica moves, in one run, by what serves. Every request is accounted for, and
// the same seeds come to the same.
func TestAllTogetherSimulated(t *testing.T) {
	const path, workload, requests, seeds = "../../internal/scenario/testdata/controlled.yaml", "poisson:4+lost:h1@60-120+version:small=2@200", 2000, 2
	store := enginetest.Store(t, path, "mine")
	run := func() map[string]any {
		var report struct{ Results []map[string]any }
		out := succeed(t, "eval", "--scenario", path, "--store", store, "--policy", "mine", "--workload", workload,
			"--requests", fmt.Sprint(requests), "--seeds", fmt.Sprint(seeds), "--format", "json")
		if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Results) != 1 {
			t.Fatal(err, out)
		}
		delete(report.Results[0], "sim_requests_per_s")
		return report.Results[0]
	}
	first := run()
	served := first["as_served"].(map[string]any)
	did := func(name string) float64 {
		n, _ := served["controllers"].(map[string]any)[name].(float64)
		return n
	}
	for name, want := range map[string]float64{
		"failovers": 1, "applications lost": 1, "recovered": 1, "moved back": 1, "false alarms": 0, "versions changed": 3, "rolled back": 0, "moves failed": 0,
	} {
		if got := did(name); got != want {
			t.Errorf("%s: %v a run, want %v", name, got, want)
		}
	}
	if did("replicas moved") < 1 || did("jobs in time") < 400 || did("jobs late")+did("jobs dropped") > 10 {
		t.Errorf("%v; want a replica moved, and jobs in time", served["controllers"])
	}
	if n := first["requests"]; n != float64(seeds*requests) {
		t.Errorf("%v requests are accounted for, of %d", n, seeds*requests)
	}
	if second := run(); !reflect.DeepEqual(first, second) {
		t.Errorf("the same seeds come to\n%v\nand then to\n%v", first, second)
	}
}

// Streaming clients, completions that a policy routes and a failover share one fleet. Every completion is accounted for; the
// clients of the host that dies have results from the other within 300 ms of when that is known; and the same seeds come
// to the same.
func TestStreamsTogetherSimulated(t *testing.T) {
	const path, requests, seeds, clients = "../../internal/scenario/testdata/streaming.yaml", 1000, 2, 20
	run := func(workload string) map[string]any {
		var report struct{ Results []map[string]any }
		out := succeed(t, "eval", "--scenario", path, "--policy", "threshold", "--workload", workload,
			"--requests", fmt.Sprint(requests), "--seeds", fmt.Sprint(seeds), "--format", "json")
		if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Results) != 1 {
			t.Fatal(err, out)
		}
		delete(report.Results[0], "sim_requests_per_s")
		return report.Results[0]
	}
	const lost = "poisson:10+lost:h1@30-60"
	streaming := fmt.Sprintf("%s+streams:%d", lost, clients)
	all := run(streaming)
	controllers := all["as_served"].(map[string]any)["controllers"].(map[string]any)
	if all["requests"] != float64(seeds*requests) || controllers["failovers"] != 1.0 || controllers["recovered"] != 1.0 {
		t.Errorf("%v requests of %d, and %v; want one failover, of which all recovers", all["requests"], seeds*requests, controllers)
	}
	streams := all["streams"].(map[string]any)
	is := func(name string) float64 { return streams[name].(float64) }
	if is("clients") < 0.98*clients || is("evicted") < 5 || is("moved") != is("evicted") || is("away_s") > 0.3 || is("seconds_above_sla") > 0.01*is("seconds") {
		t.Errorf("%v; want %d clients served, and those of a host that is lost again within 0.3 s", streams, clients)
	}
	alone := run(lost)
	met := func(of map[string]any) float64 { return of["deadline_met"].(map[string]any)["mean"].(float64) }
	if alone["streams"] != nil || met(all) >= met(alone) {
		t.Errorf("in time %v beside streams and %v without; batches of frames take of the hosts", met(all), met(alone))
	}
	if second := run(streaming); !reflect.DeepEqual(all, second) {
		t.Errorf("the same seeds come to\n%v\nand then to\n%v", all, second)
	}
}
