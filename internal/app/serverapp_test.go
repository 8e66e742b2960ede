package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// tiny is the scenario with lines in place of another.
func tiny(t *testing.T, line, lines string) *scenario.Scenario {
	t.Helper()
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), line, lines, 1)
	if edited == string(text) {
		t.Fatalf("tiny has no %q", line)
	}
	s, err := scenario.Parse("tiny.yaml", []byte(edited))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A replica's server is asked for the model of its name there, within its own times.
func TestBackendsAreThoseOfTheirReplicas(t *testing.T) {
	s := tiny(t, "  backend: simulated", `  backend: upstream
  upstreams:
    small@gpu0: {url: 'http://127.0.0.1:1/v1', model: little, timeouts: {idle: 3s}}
    large@gpu0: {url: 'http://127.0.0.1:2/v1'} #`)
	list, closeAll, err := NewBackends(s, s.ServingTable())
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	if len(list) != 2 || list[0].Model != "little" || list[0].Timeouts.Idle != 3*time.Second || list[1].Model != "" || list[1].Timeouts.Idle != 0 {
		t.Errorf("%+v", list)
	}
	for i, u := range upstreamsOf(list) {
		if want := []string{"127.0.0.1:1", "127.0.0.1:2"}[i]; u.Base().Host != want {
			t.Errorf("replica %d is at %v, want %s", i, u.Base(), want)
		}
	}
}

// One of several routers sees a part of the requests, and decides by the rate of all.
func TestACoreIsOneOfSeveral(t *testing.T) {
	rate := func(s *scenario.Scenario) float64 {
		core, err := NewCore(s, s.Serving.Fallback, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			core.Ledger().Arrive(time.Duration(i) * time.Second)
		}
		var v fleet.View
		core.Ledger().View(20*time.Second, &v)
		return v.Rate
	}
	alone, several := rate(tiny(t, "serving:\n", "serving:\n  routers: 1\n")), rate(tiny(t, "serving:\n", "serving:\n  routers: 3\n"))
	if alone == 0 || several < 2.99*alone || several > 3.01*alone {
		t.Errorf("a rate of %v, and of three routers %v", alone, several)
	}
}
