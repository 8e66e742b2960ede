package scenario_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// growing is a variant on four hosts, which is loaded on the first alone.
const growing = `
name: growing
tasks: [{name: chat, deadline_ms: 60, quality: {large: 1}}]
models: [{name: large, memory: 8GiB, load_ms: 20000}]
variants: [{name: large, model: large}]
hosts: [{name: h1, memory: 16GiB}, {name: h2, memory: 16GiB}, {name: h3, memory: 16GiB}, {name: h4, memory: 16GiB}]
replicas:
  - {variant: large, hosts: [h1], memory: 90%}
  - {variant: large, hosts: [h2, h3, h4], memory: 90%, state: cold}
profiles:
  - {variant: large, launch_floor_ms: 6, weights_ms: 20, growth_per_sequence: 0.003, contention: 0.15, token_ms: 0.2, context_token_ms: 0.002, overhead_ms: 1, sequence_ms: 0.2, weight_bytes: 6_000_000_000, activation_bytes: 200_000_000, kv_bytes_per_token: 131_072}
serving:
  backend: upstream
  upstreams: {"*@h1": {url: "http://127.0.0.1:9101", lifecycle: gearshift}, "*@h2": {url: "http://127.0.0.1:9102", lifecycle: gearshift}, "*@h3": {url: "http://127.0.0.1:9103", lifecycle: gearshift}, "*@h4": {url: "http://127.0.0.1:9104", lifecycle: gearshift}}
`

// TestCountedReplicasAreSimulated: replicas that are cold are loaded as the load asks for them, and more deadlines are
// met; every request is accounted for.
func TestCountedReplicasAreSimulated(t *testing.T) {
	play := func(more string) evaluation.Result {
		s := parse(t, growing+more)
		s.Served = true
		return played(t, s, "threshold", 4000, 1, "poisson:12")[0]
	}
	fixed, grown := play(""), play("  replicas: {period: 15s}\n")
	if !(fixed.DeadlineMet.Mean < 0.5 && grown.DeadlineMet.Mean > fixed.DeadlineMet.Mean+0.3) {
		t.Errorf("deadlines met: %.3f with one replica, %.3f with as many as are counted", fixed.DeadlineMet.Mean, grown.DeadlineMet.Mean)
	}
	if c := grown.Served.Controllers; c["replicas started"] < 1 || c["replicas started"] > 3+c["replicas stopped"] || grown.Requests != 4000 {
		t.Errorf("%d requests; %v", grown.Requests, c)
	}
}

func TestWhatIsCounted(t *testing.T) {
	s := parse(t, growing+"  replicas: {period: 15s, variants: [large], min: 2, max: 3, target: 70%, quantile: 90%}\n")
	table := s.ServingTable()
	list, period := s.Counts(table)
	if period != 15*time.Second || len(list) != 1 || list[0].Variant != 0 || list[0].Least != 2 || list[0].Most != 3 {
		t.Fatalf("%+v each %v", list, period)
	}
	if p := list[0].Plan; p.WarmUp != 20*time.Second || p.Target != 0.7 || p.Quantile != 0.9 || p.Season != 1440 || p.Validate() != nil {
		t.Errorf("%+v: %v", p, p.Validate())
	}
	if list, period := parse(t, growing).Counts(table); period != 0 || list != nil {
		t.Errorf("without the section %+v each %v", list, period)
	}
	if b := s.Busy(fleet.NewLedger(table)); len(b.AtOnce) != 4 || b.AtOnce[0] < 1 || b.AtOnce[0] > s.Engine.MaxSequences {
		t.Errorf("%v requests at once", b.AtOnce)
	}
}

// TestCountsAmongAllControllers: beside failover, changes of version and rebalancing replicas are counted in one run:
// what is lost is recovered, the version is everywhere, and every request is accounted for.
func TestCountsAmongAllControllers(t *testing.T) {
	text, err := os.ReadFile("testdata/controlled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const requests = 2000
	s := parse(t, strings.Replace(string(text), "rebalancing: {period: 10s}", "rebalancing: {period: 10s}\n  replicas: {period: 10s, variants: [notes, small]}", 1))
	r := played(t, s, "threshold", requests, 2, "poisson:4+lost:h1@60-120+version:small=2@200")[0]
	for name, want := range map[string]float64{"failovers": 1, "applications lost": 1, "recovered": 1, "moved back": 1, "false alarms": 0, "rolled back": 0} {
		if got := r.Served.Controllers[name]; got != want {
			t.Errorf("%s: %v a run, want %v", name, got, want)
		}
	}
	if c := r.Served.Controllers; r.Requests != 2*requests || c["replicas started"] < 1 || c["versions changed"] < 1 {
		t.Errorf("%d requests; %v", r.Requests, c)
	}
}
