package rollout

import (
	"math"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/serving/config"
	"gearshift/serving/work"
)

// newModule is a module of a model at two locations, whose replicas are 0 and 2, and 1 and 3.
func newModule(t *testing.T) (*Module, *fleet.Ledger) {
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
	m, err := New(Options{
		Models:     []rollout.Versioned{{Name: "v", Version: "1", Locations: []rollout.Location{{Host: 0, Replicas: [2]int{0, 2}}, {Host: 1, Replicas: [2]int{1, 3}}}}},
		Controller: rollout.DefaultOptions(), Ledger: ledger, Names: names, Pattern: "{model}@{version}", Busy: signals.NewBusy(ledger, signals.BusyOptions{}),
	})
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
