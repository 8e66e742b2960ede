package control_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/placement/bands"
	"gearshift/router/placement/layouts"
	changes "gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/router/tiers"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control"
	"gearshift/serving/control/rollout"
)

var update = flag.Bool("update", false, "rewrite testdata/metrics.txt")

// firstReplica takes the first variant.
type firstReplica struct{}

func (firstReplica) Name() string                                      { return "first@1" }
func (firstReplica) Scratch() int                                      { return 0 }
func (firstReplica) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }

// absent is an engine that cannot be reached.
type absent struct{}

func (absent) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no engine") }

// newServer is a router of two hosts that shows its busiest hosts, and changes placements and
// versions, and divides requests among tiers.
func newServer(t *testing.T) *serving.Server {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "m"}}, []fleet.Host{{Name: "h1", Memory: 1000}, {Name: "h2", Memory: 1000}},
		[]fleet.Replica{{Name: "m@h1"}, {Name: "m@h2", Host: 1}}, fleet.Model{Name: "m", Memory: 100})
	if err != nil {
		t.Fatal(err)
	}
	ledger := fleet.NewLedger(table)
	core, err := router.New(router.Config{Ledger: ledger, Fallback: firstReplica{}, Balancer: balance.SmallestBatch{}})
	if err != nil {
		t.Fatal(err)
	}
	use := signals.NewBusy(ledger, signals.BusyOptions{Takes: func(int, int) time.Duration { return time.Second }})
	busy, err := control.NewTail(control.TailOptions{Table: table, Target: 0.7, Busy: use})
	if err != nil {
		t.Fatal(err)
	}
	moves, err := control.NewRebalancing(control.RebalancingOptions{Ledger: ledger, Busy: use, Settings: bands.Settings{Options: bands.DefaultOptions(), Period: time.Minute, AtOnce: 1}})
	if err != nil {
		t.Fatal(err)
	}
	versions, err := rollout.New(rollout.Options{
		Models: []changes.Versioned{{Name: "m", Version: "1", Locations: []changes.Location{
			{Host: 0, Replicas: [2]int{0, -1}}, {Host: 1, Replicas: [2]int{1, -1}},
		}}},
		Controller: changes.DefaultOptions(), Ledger: ledger, Names: []*config.Name{{}, {}}, Busy: use,
	})
	if err != nil {
		t.Fatal(err)
	}
	groups, members := []tiers.Tier{{Name: "a", Compute: 1}, {Name: "b", Compute: 1}}, []tiers.Membership{{Tier: 0, Compute: 1}, {Tier: 1, Compute: 1}}
	divides, err := control.NewTiers(control.TiersOptions{
		Busy: use, Tiers: groups, Members: members, Controller: tiers.Defaults, Balancer: tiers.NewBalancer(balance.SmallestBatch{}, members, groups),
	})
	if err != nil {
		t.Fatal(err)
	}
	rule, err := layouts.Parse("worth")
	if err != nil {
		t.Fatal(err)
	}
	placed, err := control.NewPlacement(control.PlacementOptions{Ledger: ledger, Busy: use, Layouts: layouts.Options{Rule: rule, Shares: []float64{1}, Work: layouts.Work{
		Rate: func(int, int, float64) float64 { return 1 }, Duty: func(int) float64 { return 0 },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Metrics, c.Gauges.Interval, c.Health.ProbeModels = config.MetricsOpen, 0, false
	s, err := serving.New(serving.Options{
		Config: c, Busy: use, Router: core, AdminToken: "a-token-of-enough-characters", Backends: []serving.Backend{{Transport: absent{}}, {Transport: absent{}}},
		Modules: []serving.Module{busy, moves, versions, divides, placed},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Drain(); s.Close() })
	return s
}

// TestMetrics: what the dashboard's row on the busiest hosts asks for is there from the start. The
// file has the names and labels, for the test of the dashboard.
func TestMetrics(t *testing.T) {
	w := httptest.NewRecorder()
	newServer(t).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var text strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, of := range []string{"gearshift_tail_", "gearshift_tier_", "gearshift_rebalancing_", "gearshift_rollout_", "gearshift_placement_"} {
			if strings.HasPrefix(name, of) {
				fmt.Fprintln(&text, name, "0")
			}
		}
	}
	const file = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text.String() {
		t.Errorf("%v; the metrics are\n%sif that is meant: go test ./serving/control -run TestMetrics -update", err, text.String())
	}
}

// TestStatus: operators get the tail as JSON.
func TestStatus(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost/admin/tail", nil)
	r.Header.Set("Authorization", "Bearer a-token-of-enough-characters")
	w := httptest.NewRecorder()
	newServer(t).AdminHandler().ServeHTTP(w, r)
	if text := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(text, `"target":0.7,"buy":-1`) || !strings.Contains(text, `"replicas":["m@h1"]`) {
		t.Errorf("%d: %s", w.Code, text)
	}
}
