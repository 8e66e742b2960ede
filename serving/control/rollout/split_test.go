package rollout

import (
	"math"
	"slices"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/rollout"
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
		System:     &rollout.System{Models: []rollout.Model{{Name: "v", Version: "1", Locations: []rollout.Location{{Host: 0, Replicas: [2]int{0, 2}}, {Host: 1, Replicas: [2]int{1, 3}}}}}},
		Controller: rollout.DefaultOptions(), Ledger: ledger, Names: names, Pattern: "{model}@{version}", Slots: []int{1, 1, 1, 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, ledger
}

// hidden counts how often each replica is hidden from a thousand requests.
func hidden(m *Module) (n [4]int) {
	for id := range uint64(1000) {
		for _, r := range m.hide(&fleet.Request{ID: id + 1}) {
			n[r]++
		}
	}
	return n
}

func TestRequestsAreSplitByShares(t *testing.T) {
	m, ledger := newModule(t)
	if n := hidden(m); n != [4]int{} {
		t.Errorf("hidden %v while nothing changes", n)
	}
	ledger.Place(2, fleet.Up)
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		m.parts[0], m.parts[2] = 1-share, share
		m.split()
		n := hidden(m)
		if math.Abs(float64(n[0])/1000-share) > 0.05 || n[0]+n[2] != 1000 || n[1]+n[3] != 0 {
			t.Errorf("share %v: hidden %v of 1000 requests; want one of the location's two from each", share, n)
		}
	}
	m.parts[0], m.parts[2] = 0.5, 0.5
	m.split()
	first := m.hide(&fleet.Request{ID: 1, Session: 77})
	for id := range uint64(100) {
		if got := m.hide(&fleet.Request{ID: id, Session: 77}); !slices.Equal(got, first) {
			t.Fatalf("a session sees %v hidden, and then %v", first, got)
		}
	}
}

// What nothing else could answer is never hidden.
func TestNothingIsHiddenThatAloneAnswers(t *testing.T) {
	m, ledger := newModule(t)
	ledger.Place(2, fleet.Up)
	m.parts[0], m.parts[2] = 0, 1
	m.split()
	ledger.SetUp(2, false)
	if n := hidden(m); n[0] != 0 {
		t.Errorf("hidden %v, though the other replica is down", n)
	}
	m.parts[2] = 0 // in place: neither gets any, as long as the other location answers
	m.split()
	if n := hidden(m); n[0] != 1000 {
		t.Errorf("hidden %v while the replica is emptied", n)
	}
	ledger.SetUp(1, false)
	if n := hidden(m); n[0] != 0 {
		t.Errorf("hidden %v, though nothing else answers", n)
	}
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
	m.counts[2].add(true, 0)
	if c := (replicas{m}).Count(2); c.Requests != 2 || c.Failed != 1 || math.Abs(c.Sum-math.Log(2)) > 1e-9 {
		t.Errorf("%+v; want an answer after 2 s and a failure", c)
	}
}

func TestNamesOfVersions(t *testing.T) {
	m, _ := newModule(t)
	r := replicas{m}
	if got := m.options.Names[2].Get(); got != "" {
		t.Errorf("the second replica has the name %q before it has a version", got)
	}
	r.Hold(2, "2024-05")
	r.Hold(0, "1")
	if a, b := m.options.Names[2].Get(), m.options.Names[0].Get(); a != "v@2024-05" || b != "v" {
		t.Errorf("names %q and %q", a, b)
	}
}
