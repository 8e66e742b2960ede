package scenario_test

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"gearshift/env"
	"gearshift/internal/app"
	"gearshift/internal/scenario"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/workloads"
)

// seeing is the fleet of all controllers, whose policies see states, versions and how busy hosts are.
const seeing = `
training:
  presets_from: tiny
  observation:
    - {kind: advice, rule: threshold}
    - {kind: states}
    - {kind: ready-in, scale: [1, 1, 1, 1, 1, 1]}
    - {kind: new-version}
    - {kind: host-busy, scale: [1, 1, 1, 1, 1, 1]}
`

func fleetThatIsSeen(t *testing.T) *scenario.Scenario {
	t.Helper()
	text, err := os.ReadFile("testdata/controlled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text)+seeing)
}

// sight holds what a policy sees of a variant at a decision, as it is encoded, and the view of that.
type sight struct {
	at                               float64 // seconds
	up, coming, readyIn, newer, busy []float32
	view                             *fleet.View
	request                          fleet.Request
	encoded                          []float32
}

// sights plays a workload by the advised rule.
func sights(t *testing.T, s *scenario.Scenario, workload string, requests int) (list []sight) {
	t.Helper()
	played, err := s.Evaluated([]string{workload}, requests)
	if err != nil {
		t.Fatal(err)
	}
	config := observed(t, s)
	config.Open = played[0].Open
	if err := played[0].Perturb(&config); err != nil {
		t.Fatal(err)
	}
	e, err := env.New(config)
	if err != nil {
		t.Fatal(err)
	}
	x, err := e.Reset(workloads.Seed(workloads.Validation, 1))
	for over := false; err == nil && !over; {
		v := new(fleet.View)
		v.CopyFrom(e.View())
		n := e.Actions()
		at := sight{at: v.Now.Seconds(), view: v, request: *e.Request(), encoded: slices.Clone(x)}
		for m := range n {
			at.up, at.coming = append(at.up, x[n+2*m]), append(at.coming, x[n+2*m+1])
		}
		at.readyIn, at.newer, at.busy = at.encoded[3*n:4*n], at.encoded[4*n:5*n], at.encoded[5*n:]
		list = append(list, at)
		action := slices.Index(x[:n], 1)
		for i := 0; i < n && (action < 0 || !v.VariantAvailable(action)); i++ {
			action = i
		}
		var step env.Step
		step, err = e.Step(action)
		x, over = step.Observation, step.Terminated
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A policy sees that a host is lost, that what replaces it is on its way and when it will be there, which share of a
// model has a new version, and how busy hosts are; and the same a second time.
func TestPoliciesSeeWhatControllersDo(t *testing.T) {
	s := fleetThatIsSeen(t)
	const notes, large = 0, 2
	const workload, requests = "poisson:4+lost:h1@60-120+version:notes=2@200", 2000
	list := sights(t, s, workload, requests)
	var coming, lost, rolled int
	var longest, busiest float32
	for i, x := range list {
		if x.at < 60 && i > 0 && list[i-1].up[large] > x.up[large] {
			t.Errorf("%.1f s: %v of large are up, and nothing is lost yet", x.at, x.up[large])
		}
		if x.at > 61 && x.at < 119 && x.view.State(slices.IndexFunc(x.view.Table.Replicas, named("large@h1"))) == fleet.Down {
			lost++
		}
		for m, share := range x.coming {
			loading := share > 0
			if known := x.readyIn[m] < observation.Bound; known != loading {
				t.Errorf("%.1f s: %v of variant %d are on their way, to be up in %v s", x.at, share, m, x.readyIn[m])
			} else if loading {
				coming++
				longest = max(longest, x.readyIn[m])
			}
		}
		if x.newer[notes] > 0 {
			rolled++
		}
		for m, share := range x.newer {
			if share > 0 && (m != notes || x.at < 200) {
				t.Errorf("%.1f s: %v of variant %d have a new version", x.at, share, m)
			}
		}
		if b := x.busy[0]; b <= 1 {
			busiest = max(busiest, b)
		}
	}
	if lost == 0 || coming == 0 || rolled == 0 || longest < 0.3 || longest > 3 || busiest < 0.1 {
		t.Errorf("%d decisions while large@h1 is down, %d with something on its way, at most %v s from being up, %d while a version is replaced; hosts busy up to %v",
			lost, coming, longest, rolled, busiest)
	}
	again := sights(t, s, workload, requests)
	if !slices.EqualFunc(list, again, func(a, b sight) bool { return slices.Equal(a.encoded, b.encoded) }) {
		t.Error("a second run shows something else")
	}
}

func named(name string) func(fleet.Replica) bool {
	return func(r fleet.Replica) bool { return r.Name == name }
}

// What a feature needs is named where it is missing.
func TestFeaturesThatCannotBeSeen(t *testing.T) {
	text, err := os.ReadFile("testdata/controlled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slow := strings.Replace(string(text), "memory: 8GiB, load_ms: 3000", "memory: 8GiB", 1)
	_, err = scenario.Parse("x.yaml", []byte(slow+seeing))
	if want := `training.observation[2]: ready-in: model "large" does not say how long a load takes; want its load_ms`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	seen, blind := fleetThatIsSeen(t), parse(t, string(text))
	if err := seen.Spec().Match(blind.ServingTable()); err == nil || !strings.Contains(err.Error(), "host-busy: nothing measures how busy hosts are; want it in training.observation") {
		t.Errorf("a policy that sees hosts, in a scenario that measures none: %v", err)
	}
	if err := seen.Spec().Match(seen.ServingTable()); err != nil {
		t.Error(err)
	}
}

// observer keeps what the router that serves encodes.
type observer struct {
	*observation.Encoder
	seen []float32
}

func (o *observer) Observe(v *fleet.View, _ router.Choice) {
	o.seen = make([]float32, o.Dim())
	var now fleet.Request
	o.Encode(o.seen, v, &now)
}

// A router that serves encodes what the simulator does while the fleet is in the same states.
func TestAServerSeesWhatTheSimulatorShows(t *testing.T) {
	s := fleetThatIsSeen(t)
	core, err := app.NewCore(s, "threshold", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	maker, err := s.Maker(core.Table())
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := maker.Encoder(s.Spec())
	if err != nil {
		t.Fatal(err)
	}
	l, o := core.Ledger(), &observer{Encoder: encoder}
	for _, x := range sights(t, s, "poisson:4+lost:h1@60-120+version:notes=2@200", 900) {
		var newer []int
		for i := range core.Table().Replicas {
			is := x.view.State(i)
			l.SetUp(i, is != fleet.Down)
			if is != fleet.Down {
				l.Place(i, is)
			}
			if at, ok := x.view.UpAt(i); ok {
				l.Expect(i, at)
			}
			if x.view.IsNewer(i) {
				newer = append(newer, i)
			}
		}
		l.MarkNewer(newer)
		l.SetBusy(x.view.Busy)
		choice, err := core.Route(-1, &x.request, x.view.Now, o)
		if err != nil {
			t.Fatal(err)
		}
		choice.Lease.End()
		n := len(core.Table().Variants) // after the advice
		if !slices.Equal(o.seen[n:], x.encoded[n:]) {
			t.Fatalf("%.1f s: the router that serves encodes %v, the simulator %v", x.at, o.seen[n:], x.encoded[n:])
		}
	}
}
