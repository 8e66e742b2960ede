package rollout

import (
	"math"
	"slices"
	"testing"

	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// newReplicas controls a model at two locations, whose replicas are 0 and 2, and 1 and 3.
func newReplicas(t *testing.T) (*Replicas, *fleet.Ledger) {
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
	s := []Versioned{{Name: "v", Version: "1", Locations: []Location{{Host: 0, Replicas: [2]int{0, 2}}, {Host: 1, Replicas: [2]int{1, 3}}}}}
	x, err := NewReplicas(s, DefaultOptions(), ledger, signals.NewBusy(ledger, signals.BusyOptions{}), func(int, *Versioned, string) {})
	if err != nil {
		t.Fatal(err)
	}
	return x, ledger
}

// hidden counts how often each replica is hidden from a thousand requests.
func hidden(x *Replicas) (n [4]int) {
	for id := range uint64(1000) {
		for _, r := range x.Hide(&fleet.Request{ID: id + 1}) {
			n[r]++
		}
	}
	return n
}

func TestRequestsAreSplitByShares(t *testing.T) {
	x, ledger := newReplicas(t)
	if n := hidden(x); n != [4]int{} {
		t.Errorf("hidden %v while nothing changes", n)
	}
	ledger.Place(2, fleet.Up)
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		x.parts[0], x.parts[2] = 1-share, share
		x.split()
		n := hidden(x)
		if math.Abs(float64(n[0])/1000-share) > 0.05 || n[0]+n[2] != 1000 || n[1]+n[3] != 0 {
			t.Errorf("share %v: hidden %v of 1000 requests; want one of the location's two from each", share, n)
		}
	}
	x.parts[0], x.parts[2] = 0.5, 0.5
	x.split()
	first := x.Hide(&fleet.Request{ID: 1, Session: 77})
	for id := range uint64(100) {
		if got := x.Hide(&fleet.Request{ID: id, Session: 77}); !slices.Equal(got, first) {
			t.Fatalf("a session sees %v hidden, and then %v", first, got)
		}
	}
}

// What nothing else could answer is never hidden.
func TestNothingIsHiddenThatAloneAnswers(t *testing.T) {
	x, ledger := newReplicas(t)
	ledger.Place(2, fleet.Up)
	x.parts[0], x.parts[2] = 0, 1
	x.split()
	ledger.SetUp(2, false)
	if n := hidden(x); n[0] != 0 {
		t.Errorf("hidden %v, though the other replica is down", n)
	}
	x.parts[2] = 0 // in place: neither gets any, as long as the other location answers
	x.split()
	if n := hidden(x); n[0] != 1000 {
		t.Errorf("hidden %v while the replica is emptied", n)
	}
	ledger.SetUp(1, false)
	if n := hidden(x); n[0] != 0 {
		t.Errorf("hidden %v, though nothing else answers", n)
	}
}
