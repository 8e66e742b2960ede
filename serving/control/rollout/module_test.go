package rollout

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control/states"
	"gearshift/serving/work"
)

// newModule is a module of a model at two locations, whose replicas are 0 and 2, and 1 and 3.
func newModule(t *testing.T, change ...func(*Options)) (*Module, *fleet.Ledger) {
	t.Helper()
	var list []fleet.Replica
	for i, s := range []fleet.State{fleet.Up, fleet.Up, fleet.Cold, fleet.Cold} {
		list = append(list, fleet.Replica{Name: string(rune('a' + i)), Host: i % 2, Initial: s})
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Total: 1, Pace: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "v"}}, []fleet.Host{{Name: "h1"}, {Name: "h2"}}, list, fleet.Model{Name: "v"})
	if err != nil {
		t.Fatal(err)
	}
	ledger := fleet.NewLedger(table)
	names := make([]*config.Name, 4)
	for i := range names {
		names[i] = new(config.Name)
		names[i].Set("v")
	}
	o := Options{
		Models:     []rollout.Versioned{{Name: "v", Version: "1", Locations: []rollout.Location{{Host: 0, Replicas: [2]int{0, 2}}, {Host: 1, Replicas: [2]int{1, 3}}}}},
		Controller: rollout.DefaultOptions(), Ledger: ledger, Names: names, Pattern: "{model}@{version}", Busy: signals.NewBusy(ledger, signals.BusyOptions{}),
	}
	for _, f := range change {
		f(&o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m, ledger
}

// Failures count where they happen, and times of answers if the first attempt gave them.
func TestWhatIsCounted(t *testing.T) {
	m, _ := newModule(t)
	w := &work.Work{Attempts: 1, Waited: time.Second}
	w.Replica = 2
	m.Ended(w, work.Result{Outcome: work.Completed, Latency: 3 * time.Second})
	m.Ended(w, work.Result{Outcome: work.Failed})    // counted when its attempt failed
	m.Ended(w, work.Result{Outcome: work.Cancelled}) // says nothing of the replica
	w.Attempts = 2
	m.Ended(w, work.Result{Outcome: work.Completed, Latency: 9 * time.Second})
	m.controller.Failed(2)
	if c := m.controller.Answers(2); c.Requests != 2 || c.Failed != 1 || math.Abs(c.Sum-math.Log(2)) > 1e-9 {
		t.Errorf("%+v; want an answer after 2 s and a failure", c)
	}
}

func TestNamesOfVersions(t *testing.T) {
	m, _ := newModule(t)
	model := &m.options.Models[0]
	if got := m.options.Names[2].Get(); got != "" {
		t.Errorf("the second replica has the name %q before it has a version", got)
	}
	m.name(2, model, "2024-05")
	m.name(0, model, "1")
	if a, b := m.options.Names[2].Get(), m.options.Names[0].Get(); a != "v@2024-05" || b != "v" {
		t.Errorf("names %q and %q", a, b)
	}
}

// sharedStates hold another router's states until a turn comes.
type sharedStates struct{ follow func(states.Turn) error }

func (s *sharedStates) Open(string, time.Time) (states.State, error) { return s, nil }
func (s *sharedStates) Follow(f func(states.Turn) error)             { s.follow = f }
func (s *sharedStates) Term() uint64                                 { return 0 }
func (s *sharedStates) Path() string                                 { return "etcd" }
func (s *sharedStates) Last() []byte                                 { return nil }
func (s *sharedStates) Trouble() string                              { return "" }
func (s *sharedStates) Save([]byte) error                            { return states.ErrStandsBy }
func (s *sharedStates) Close() error                                 { return nil }

// TestVersionsAreFollowed: a router that stands by follows the versions that the acting router has saved, routes by
// them, and continues from there in its turn.
func TestVersionsAreFollowed(t *testing.T) {
	s := &sharedStates{}
	m, ledger := newModule(t, func(o *Options) { o.States = s })
	fallback, err := policy.NewStatic(ledger.Table(), 0)
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: ledger, Fallback: fallback, Balancer: balance.SmallestBatch{}})
	if err != nil {
		t.Fatal(err)
	}
	backends := make([]serving.Backend, 4)
	for i := range backends {
		backends[i].Transport = http.DefaultTransport
	}
	server, err := serving.New(serving.Options{Config: config.Default(), Router: core, Backends: backends, Modules: []serving.Module{m}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	saved := m.controller.State(0)
	saved.Models[0].Wanted, saved.Models[0].History = "2", []string{"1"}
	for i := range saved.Models[0].Locations {
		l := &saved.Models[0].Locations[i]
		l.Active, l.Versions = 1, [2]string{"1", "2"}
	}
	text, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	follows := func(what string) *rollout.Replicas {
		t.Helper()
		if v := m.Versions()[0]; v.Version != "2" {
			t.Errorf("%s: %+v; want version 2", what, v)
		}
		if first, second := m.options.Names[0].Get(), m.options.Names[2].Get(); first != "v" || second != "v@2" {
			t.Errorf("%s: engines are asked for %q and %q", what, first, second)
		}
		return m.shown.Load()
	}
	for _, acts := range []bool{false, true} {
		if err := s.follow(states.Turn{Acts: acts, Term: 3, Last: text}); err != nil {
			t.Fatal(err)
		}
		was := follows(fmt.Sprintf("acts %v", acts))
		if server.Engines().Settle(); ledger.Placed(0) != fleet.Cold || ledger.Placed(2) != fleet.Up {
			t.Errorf("acts %v: replicas are %v and %v; want the second of the location up", acts, ledger.Placed(0), ledger.Placed(2))
		}
		if acts {
			continue
		}
		if err := s.follow(states.Turn{Term: 3, Last: text}); err != nil || follows("other controllers have saved a state") != was {
			t.Errorf("the controller begins again, %v", err)
		}
		if err := s.follow(states.Turn{Term: 3, Last: []byte(`{"models":[{"name":"v"}]}`)}); err == nil || follows("the state cannot be used") != was {
			t.Errorf("a state without versions: %v", err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
