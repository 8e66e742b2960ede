package signals_test

import (
	"sync"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// ledger is of two replicas of one variant: the first has a limit and a KV cache of
// known size.
func ledger(t *testing.T) *fleet.Ledger {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "model"}}, []fleet.Host{{Name: "host"}},
		[]fleet.Replica{{Name: "a", Limit: 10, KVTokens: 1000}, {Name: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	return fleet.NewLedger(table)
}

func TestWhatOthersHave(t *testing.T) {
	for name, c := range map[string]struct {
		replica int
		reading signals.Reading
		own     signals.Count
		want    signals.Count
	}{
		"all its own":        {0, signals.Reading{Running: 3, Waiting: 1, KVUse: 0.5}, signals.Count{InFlight: 4, Held: 500}, signals.Count{}},
		"more than its own":  {0, signals.Reading{Running: 3, Waiting: 1, KVUse: 0.5}, signals.Count{InFlight: 1, Held: 100}, signals.Count{InFlight: 3, Held: 400}},
		"less than its own":  {0, signals.Reading{Running: 0, Waiting: 0, KVUse: 0}, signals.Count{InFlight: 4, Held: 100}, signals.Count{}},
		"more than it takes": {0, signals.Reading{Running: 50, Waiting: -1, KVUse: 7}, signals.Count{}, signals.Count{InFlight: 10, Held: 1000}},
		"without a limit":    {1, signals.Reading{Running: 1e6, Waiting: -1, KVUse: 1}, signals.Count{}, signals.Count{InFlight: 4096}},
		"it says nothing":    {0, signals.Reading{Running: -1, Waiting: -1, KVUse: -1}, signals.Count{}, signals.Count{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger(t)
			m := signals.New(l)
			m.Observe(c.replica, c.reading, c.own, time.Second)
			var v fleet.View
			l.View(time.Second, &v)
			got := signals.Count{InFlight: int(v.InFlight[c.replica]), Held: int(v.Held[c.replica])}
			if s := m.Signals()[c.replica]; got != c.want || s.Others != c.want || s.At != time.Second || !s.Read || s.Stale {
				t.Errorf("the ledger is corrected by %+v, want %+v; %+v", got, c.want, s)
			}
		})
	}
}

func TestSignalsAge(t *testing.T) {
	l := ledger(t)
	m := signals.New(l)
	both := []int{0, 1}
	m.Observe(0, signals.Reading{Running: 3, Waiting: -1, KVUse: -1}, signals.Count{}, time.Second)
	m.Observe(1, signals.Reading{Running: 2, Waiting: -1, KVUse: -1}, signals.Count{}, 2*time.Second)
	if until, ok := m.Fresh(both, 5*time.Second, 3*time.Second); !ok || until != 6*time.Second {
		t.Errorf("fresh until %v, %v", until, ok)
	}
	if until, ok := m.Fresh(both, 5*time.Second, 6*time.Second); !ok || until != 7*time.Second {
		t.Errorf("the other is fresh until %v, %v", until, ok)
	}
	if _, ok := m.Fresh(both, 5*time.Second, 7*time.Second); ok {
		t.Error("signals do not age")
	}
	m.Forget(both)
	var v fleet.View
	l.View(7*time.Second, &v)
	if s := m.Signals()[0]; v.InFlight[0] != 0 || v.InFlight[1] != 0 || !s.Stale || s.Running != 3 || s.Others != (signals.Count{}) {
		t.Errorf("stale signals still correct: %v, %+v", v.InFlight, s)
	}
}

// Shares count as other routers' load, and readings beyond them and the router's own as other clients'.
func TestSharesOfOtherRouters(t *testing.T) {
	l := ledger(t)
	m := signals.New(l)
	shares := make([]signals.Count, 2)
	sees := func(what string, inFlight, held int32) {
		t.Helper()
		var v fleet.View
		l.View(0, &v)
		if v.InFlight[1] != inFlight || v.Held[1] != held {
			t.Errorf("%s: the view has %d requests and %d tokens, want %d and %d", what, v.InFlight[1], v.Held[1], inFlight, held)
		}
	}
	shares[1] = signals.Count{InFlight: 5, Held: 700}
	m.Share(shares)
	sees("shares alone", 5, 700)
	m.Observe(1, signals.Reading{Running: 10, Waiting: -1, KVUse: -1}, signals.Count{InFlight: 2}, time.Second)
	sees("with a reading", 8, 700)
	shares[1] = signals.Count{InFlight: 9, Held: 900}
	m.Share(shares)
	sees("after more is shared", 12, 900)
	m.Observe(1, signals.Reading{Running: 10, Waiting: -1, KVUse: -1}, signals.Count{InFlight: 2}, 2*time.Second)
	sees("with the next reading", 9, 900)
	m.Forget([]int{1})
	sees("when the reading is stale", 9, 900)
	m.Share(make([]signals.Count, 2))
	sees("when no other router is left", 0, 0)
}

// Of two shares that are set at once the later one stays in force, however long the correction by the first one takes.
func TestSharesKeepTheirOrder(t *testing.T) {
	m := signals.New(ledger(t))
	begun, second := make(chan struct{}), make(chan struct{})
	var last signals.Count // corrected by
	m.OnCorrect = func(_ int, others signals.Count) {
		if others.InFlight == 5 {
			close(begun)
			select {
			case <-second:
			case <-time.After(50 * time.Millisecond):
			}
		}
		last = others
	}
	var both sync.WaitGroup
	both.Go(func() { m.Share([]signals.Count{{InFlight: 5}}) })
	<-begun
	both.Go(func() {
		m.Share([]signals.Count{{InFlight: 2}})
		close(second)
	})
	both.Wait()
	if last.InFlight != 2 {
		t.Errorf("the last correction is by %d requests, want the later share's 2", last.InFlight)
	}
}
