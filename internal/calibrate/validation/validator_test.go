package validation

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// validateInProcess validates the engines that the scenario's file simulates, in no time.
func validateInProcess(t *testing.T, l *validator) {
	t.Helper()
	targets, err := l.aims()
	if err != nil {
		t.Fatal(err)
	}
	running, err := scenario.Load(l.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		engines := enginetest.New(t, running)
		defer engines.Close()
		l.by = engines
		if l.client, err = loadgen.NewClient(t.Context(), targets, 0, engines); err != nil {
			t.Fatal(err)
		}
		if err = l.play(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// The simulator predicts the engines that it simulates, alone and co-resident: the
// same requests take as long, and meet as many deadlines.
func TestLive(t *testing.T) {
	l, err := newValidator(Options{Scenario: "tiny", Upstreams: "http://127.0.0.1", Loads: []float64{0.3, 0.9}, What: Kinds, Tries: 1, Time: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	validateInProcess(t, l)
	l.out.pool()
	if len(l.out.Runs) != 2*2+2*2 || l.out.EndToEnd.Median > 0.01 || l.out.TPOT.Median > 0.01 || l.out.TTFT.Median > 0.01 {
		t.Errorf("%d runs, errors %v %v %v", len(l.out.Runs), l.out.EndToEnd, l.out.TPOT, l.out.TTFT)
	}
	for _, r := range l.out.Runs {
		if math.Abs(r.EndToEnd.off()) > 0.02 || math.Abs(r.TPOT.off()) > 0.02 || math.Abs(r.Met.Measured-r.Met.Predicted) > 0.05 || r.Refused > 0 {
			t.Errorf("%+v", r)
		}
	}
	var table strings.Builder
	if err := l.out.Table(&table); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"alone small", "alone large", "co-resident large", "in time", "TTFT"} {
		if !strings.Contains(table.String(), word) {
			t.Errorf("no %q in\n%s", word, &table)
		}
	}
}

// Engines that are slower than their profiles, as a machine may be for a while, are told
// from a law that does not hold: what is left once the profile is as slow is next to
// nothing, and the errors stay what they are.
func TestSlownessIsToldFromTheModel(t *testing.T) {
	l, err := newValidator(Options{Scenario: "tiny", Upstreams: "http://127.0.0.1", Loads: []float64{0.3}, What: Kinds, Tries: 1, Volley: 4, Time: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l.fleet.SlowVariants([]float64{0.8, 0.5}) // the engines that run are the scenario's
	validateInProcess(t, l)
	if len(l.out.Runs) != 4 {
		t.Fatalf("%d runs", len(l.out.Runs))
	}
	for _, r := range l.out.Runs {
		want := map[string]float64{"small": 1.25, "large": 2}[r.Variant]
		s := r.Slowness
		if s == nil || math.Abs(s.Before-want) > 0.01*want || math.Abs(s.After-want) > 0.01*want {
			t.Errorf("%s: slowness %+v, want %v", r.name(), s, want)
			continue
		}
		if math.Abs(s.TPOT.off()) > 0.02 || math.Abs(s.EndToEnd.off()) > 0.02 || r.TPOT.off() > 1/want-0.9 || s.TPOT.Measured != r.TPOT.Measured {
			t.Errorf("%s: %+v; as slow as they were, %+v", r.name(), r, s)
		}
	}
	var table strings.Builder
	if err := l.out.Table(&table); err != nil || !strings.Contains(table.String(), "2.00, 2.00") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// A probe tells the mean over the variants, in the middle of other loads.
func TestProbeTellsHowSlowTheEnginesAre(t *testing.T) {
	running, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newValidator(Options{Scenario: "tiny", Upstreams: "http://127.0.0.1", What: []string{Alone}, Volley: probeVolley})
	if err != nil {
		t.Fatal(err)
	}
	l.fleet.SlowVariants([]float64{0.8, 0.5}) // the engines that run are the scenario's
	synctest.Test(t, func(t *testing.T) {
		engines := enginetest.New(t, running)
		defer engines.Close()
		l.by = engines
		p, err := l.probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for range 2 {
			if slow, err := p.Slowness(t.Context()); err != nil || math.Abs(slow-math.Sqrt(1.25*2)) > 0.02 {
				t.Errorf("%v, %v; want %v", slow, err, math.Sqrt(1.25*2))
			}
		}
	})
}

// Who measures is not at the engine, as the simulator's clients are: what is predicted
// takes a request's way longer.
func TestPredictionHasTheWay(t *testing.T) {
	l, err := newValidator(Options{Scenario: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	arrivals, err := drawn(&l.settings, 2, 50, 1)
	if err != nil {
		t.Fatal(err)
	}
	predicted := func(way float64) []met {
		c := l.fleet
		c.Profiles = slices.Clone(c.Profiles)
		far := *c.Profiles[0]
		far.Request = way
		c.Profiles[0] = &far
		list, err := simulatedRun(c, arrivals, &pinned{replicas: make([]int, len(arrivals))})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	near, far := predicted(0), predicted(7)
	for i := range near {
		if n, f := near[i], far[i]; f.first-n.first != 7*time.Millisecond || f.last-n.last != 7*time.Millisecond {
			t.Fatalf("request %d: %+v, from afar %+v", i, n, f)
		}
	}
}

// A run is repeated while others have the processors, and the one that they had
// least counts, whatever it shows.
func TestLiveRepeats(t *testing.T) {
	l, err := newValidator(Options{Scenario: "tiny", Upstreams: "http://127.0.0.1", Loads: []float64{0.5}, What: []string{CoResident}, Tries: 3, Time: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	read, now := 0, loadgen.Processors{}
	l.machine = func() loadgen.Processors { // 30 %, 10 % and 20 % stolen
		now.All += 50
		if read++; read%2 == 0 {
			now.Stolen += []float64{15, 5, 10}[read/2-1]
		}
		return now
	}
	validateInProcess(t, l)
	if read != 6 || len(l.out.Runs) != 2 || l.out.Runs[0].Stolen != 0.1 || len(l.out.Notes) != 1 || !strings.Contains(l.out.Notes[0], "co-resident at load 0.5 is doubtful") || !strings.Contains(l.out.Notes[0], "10 %") {
		t.Errorf("%d readings, notes %q, runs %+v", read, l.out.Notes, l.out.Runs)
	}
}

// One variant cannot be co-resident: an empty report would say that all is well.
func TestLiveWithNothingToRun(t *testing.T) {
	l, err := newValidator(Options{Scenario: "tiny", Upstreams: "http://127.0.0.1", Loads: []float64{0.5}, What: []string{CoResident}, Only: []string{"small"}, Tries: 1, Time: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.aims(); err == nil || !strings.Contains(err.Error(), "nothing to run") {
		t.Errorf("error %v", err)
	}
}

// Each size is validated where it has neighbours, whichever host that is. What has
// none is said.
func TestValidatedWhereTheNeighboursAre(t *testing.T) {
	for _, c := range []struct {
		small, large string
		want         string
		note         string
	}{
		{"gpu1", "gpu0, gpu1", "[[small@gpu1] [large@gpu1] [small@gpu1 large@gpu1]]", ""},
		{"gpu0, gpu1", "gpu0, gpu1", "[[small@gpu0] [large@gpu0] [small@gpu0 large@gpu0]]", ""},
		{"gpu1", "gpu0", "[[small@gpu1] [large@gpu0]]", "not co-resident, since no other variant that is validated shares the host: small, large"},
	} {
		l, err := newValidator(Options{Scenario: onHosts(t, c.small, c.large), Loads: []float64{0.5}, What: Kinds, Tries: 1, Time: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		targets, err := l.aims()
		if err != nil {
			t.Fatal(err)
		}
		var sets [][]string
		for _, set := range l.sets {
			var names []string
			for _, r := range set {
				replica := &l.fleet.Table.Replicas[r]
				names = append(names, replica.Name)
				if host := l.fleet.Table.Hosts[replica.Host].Name; targets[l.targets[r]].URL != "http://127.0.0.1:1/"+host {
					t.Errorf("%s is asked at %s", replica.Name, targets[l.targets[r]].URL)
				}
			}
			sets = append(sets, names)
		}
		if got := fmt.Sprint(sets); got != c.want || !strings.HasPrefix(strings.Join(l.out.Notes, "; "), c.note) || (c.note == "") != (len(l.out.Notes) == 0) {
			t.Errorf("small on %s, large on %s: %s, want %s; notes %q", c.small, c.large, got, c.want, l.out.Notes)
		}
	}
	// One server is that of the first host.
	l, err := newValidator(Options{Scenario: onHosts(t, "gpu1", "gpu0, gpu1"), Upstreams: "http://127.0.0.1", Loads: []float64{0.5}, What: []string{Alone}, Tries: 1, Time: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.aims(); err != nil || len(l.sets) != 1 || len(l.out.Notes) != 1 || !strings.Contains(l.out.Notes[0], "small is not validated: it is not on gpu0") {
		t.Errorf("sets %v, notes %q, error %v", l.sets, l.out.Notes, err)
	}
}

// onHosts is tiny with its sizes on hosts of their own choice, served by upstreams.
func onHosts(t *testing.T, small, large string) string {
	t.Helper()
	tiny, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	text := string(tiny)
	upstreams := "  backend: upstream\n  upstreams:\n"
	for variant, on := range map[string]string{"small": small, "large": large} {
		for _, host := range strings.Split(on, ", ") {
			upstreams += fmt.Sprintf("    %s@%s: {url: 'http://127.0.0.1:1/%s'}\n", variant, host, host)
		}
	}
	for _, edit := range [][2]string{
		{"  - {name: gpu0, memory: 8GiB}\n", "  - {name: gpu0, memory: 8GiB}\n  - {name: gpu1, memory: 8GiB}\n"},
		{"{variant: small, hosts: [gpu0]", "{variant: small, hosts: [" + small + "]"},
		{"{variant: large, hosts: [gpu0]", "{variant: large, hosts: [" + large + "]"},
		{"  backend: simulated", strings.TrimRight(upstreams, "\n") + " #"},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("tiny has no %q", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	path := filepath.Join(t.TempDir(), "hosts.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The policy is the one that the router has named most, or that of the option.
func TestThePolicyOfARouter(t *testing.T) {
	said := map[string]int{"few@1": 2, "most@2": 5}
	for asked, want := range map[string]string{"": "most@2", "mine@3": "mine@3"} {
		l, err := newValidator(Options{Scenario: "tiny", Policy: asked})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		l.program.Policy = func(_ *scenario.Scenario, _ *fleet.Table, ref string, _ *[]string) (policy.Network, error) {
			got = ref
			return nil, nil
		}
		if _, err := l.decides(said); err != nil || got != want {
			t.Errorf("asked for %q: %q, %v", asked, got, err)
		}
	}
}

// A load of too few requests is refused, or goes on until it has enough, within bounds.
func TestLoadsOfTooFewRequests(t *testing.T) {
	l, err := newValidator(Options{Scenario: "tiny", Upstreams: "http://127.0.0.1", Loads: []float64{0.5}, What: []string{Alone}, Tries: 1, Time: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rate    float64
		stretch bool
		want    int // 0: refused
	}{{2, false, 20}, {2, true, 20}, {0.5, false, 0}, {0.5, true, 10}, {0.05, true, 0}} {
		l.Stretch = c.stretch
		n, err := l.requests(c.rate)
		if n != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%v requests per second, stretched %t: %d, %v; want %d", c.rate, c.stretch, n, err, c.want)
		}
	}
}
