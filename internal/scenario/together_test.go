package scenario_test

import (
	"os"
	"strings"
	"testing"

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
	x, _ := s.RolloutSystem()
	if len(x.Models) != 2 || len(x.Models[0].Locations) != 3 {
		t.Errorf("versions: %+v", x.Models)
	}
}
