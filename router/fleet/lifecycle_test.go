package fleet

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// A replica takes requests only if it is placed up, has not failed and is not drained,
// in whatever order the three come and go, and its state says which of them it is.
func TestStateComposes(t *testing.T) {
	l := NewLedger(table(t))
	placed, failed, drained := Up, false, false
	rng := rand.New(rand.NewPCG(1, 2))
	var v View
	for step := range 500 {
		switch rng.IntN(3) {
		case 0:
			placed = State(rng.IntN(int(Down)))
			l.Place(2, placed)
		case 1:
			failed = rng.IntN(2) == 0
			l.SetUp(2, !failed)
		case 2:
			drained = rng.IntN(2) == 0
			l.SetDrained(2, drained)
		}
		want := placed
		if drained && placed == Up {
			want = Draining
		}
		if failed {
			want = Down
		}
		l.View(0, &v)
		if got := l.State(2); got != want || l.Placed(2) != placed || l.Drained(2) != drained {
			t.Fatalf("step %d: state %v, placed %v; want %v, %v", step, got, l.Placed(2), want, placed)
		}
		lease, ok := l.Begin(2, 0)
		lease.End()
		if up := want == Up; ok != up || v.Down[2] == up {
			t.Fatalf("step %d: a replica that is %v begins: %v, is down: %v", step, want, ok, v.Down[2])
		}
	}
}

// Requests that are held are counted by variant, and a copy has its own count.
func TestAwaitedRequests(t *testing.T) {
	l := NewLedger(table(t))
	if l.Awaited(1) != 0 {
		t.Errorf("%d awaited at the start", l.Awaited(1))
	}
	l.Await(1, 2)
	l.Await(0, 1)
	var other Ledger
	other.CopyFrom(l)
	l.Await(1, -1)
	l.Await(0, -1)
	if a, b, c := l.Awaited(0), l.Awaited(1), other.Awaited(1); a != 0 || b != 1 || c != 2 {
		t.Errorf("%d and %d awaited, the copy has %d", a, b, c)
	}
}

// The epoch counts the changes of placement and nothing else; a choice made before one
// is refused, and what is in flight goes on.
func TestPlaceBeginsAnEpoch(t *testing.T) {
	l := NewLedger(table(t))
	lease, ok := l.Begin(0, 0)
	if !ok || l.Epoch() != 0 || l.EpochOf(0) != 0 {
		t.Fatalf("begins %v in epoch %d, want epoch 0", ok, l.Epoch())
	}
	var v View
	l.View(0, &v)
	if e := l.Place(0, Up); e != 0 {
		t.Errorf("epoch %d by a placement that changes nothing, want 0", e)
	}
	if again, ok := l.BeginOn(&v, 3, 0); !ok {
		t.Error("a placement that changes nothing refuses an earlier choice")
	} else {
		again.End()
	}
	l.View(0, &v)
	if e := l.Place(0, Cold); e != 1 || l.Epoch() != 1 || l.EpochOf(0) != 1 || l.EpochOf(1) != 0 {
		t.Errorf("epoch %d, of the replicas %d and %d; want 1, 1 and 0", e, l.EpochOf(0), l.EpochOf(1))
	}
	if _, ok := l.BeginOn(&v, 3, 0); ok {
		t.Error("a choice made on the placement before still begins")
	}
	l.SetUp(1, false)
	l.SetDrained(1, true)
	if l.Epoch() != 1 {
		t.Errorf("epoch %d after a failure and a drain, want 1", l.Epoch())
	}
	if l.InFlightOn(0) != 1 || !lease.End() {
		t.Error("the lease did not outlive its epoch")
	}
	if e := l.Place(1, Loading); e != 2 || l.EpochOf(1) != 2 || l.EpochOf(0) != 1 {
		t.Errorf("epoch %d, of the replicas %d and %d; want 2, 2 and 1", e, l.EpochOf(1), l.EpochOf(0))
	}
}

// Of two controllers that know the same placement of a replica only the first places it,
// even where that changes no state.
func TestPlaceSince(t *testing.T) {
	l := NewLedger(table(t))
	l.Place(0, Warm) // another replica's placement is no matter
	for _, s := range []State{Cold, Cold, Loading} {
		known, before := l.EpochOf(1), l.Epoch()
		epoch, ok := l.PlaceSince(1, known, s)
		if !ok || epoch != before+1 || l.EpochOf(1) != epoch || l.Placed(1) != s {
			t.Errorf("the first placed it %v in epoch %d, after %d: %v; want %v", l.Placed(1), epoch, before, ok, s)
		}
		if again, ok := l.PlaceSince(1, known, Up); ok || again != epoch || l.Placed(1) != s {
			t.Errorf("the second placed it %v, in epoch %d: %v", l.Placed(1), again, ok)
		}
	}
}

func TestPlaceRefusesWhatIsNoPlacement(t *testing.T) {
	for _, s := range []State{Down, 77} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("placed %v", s)
				}
			}()
			NewLedger(table(t)).Place(0, s)
		}()
	}
}

// The table says in which state each replica starts.
func TestInitialStates(t *testing.T) {
	built := table(t)
	replicas := append([]Replica(nil), built.Replicas...)
	replicas[1].Initial, replicas[2].Initial = Cold, Warm
	other, err := NewTable(built.Tasks, built.Variants, built.Hosts, replicas)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLedger(other)
	var v View
	l.View(0, &v)
	if got := []State{l.State(0), l.State(1), l.State(2)}; !reflect.DeepEqual(got, []State{Up, Cold, Warm}) || l.Epoch() != 0 {
		t.Errorf("states %v in epoch %d", got, l.Epoch())
	}
	if !reflect.DeepEqual(v.Down, []bool{false, true, true, false}) || v.VariantAvailable(0) != true {
		t.Errorf("down %v", v.Down)
	}
	replicas[0].Initial = Draining
	if _, err := NewTable(built.Tasks, built.Variants, built.Hosts, replicas); err == nil ||
		err.Error() != `replica "small@a" starts draining; it must be up, cold or warm` {
		t.Errorf("error %v", err)
	}
}

// A copy has the placement and goes its own way from there.
func TestCopyOfPlacement(t *testing.T) {
	l := NewLedger(table(t))
	l.Place(0, Cold)
	l.Place(1, Warm)
	into := NewLedger(table(t))
	into.Place(3, Cold)
	into.CopyFrom(l)
	if into.Epoch() != 2 || into.State(0) != Cold || into.State(1) != Warm || into.State(3) != Up || into.EpochOf(1) != 2 {
		t.Errorf("epoch %d: %v, %v, %v", into.Epoch(), into.State(0), into.State(1), into.State(3))
	}
	into.Place(0, Up)
	if l.State(0) != Cold || l.Epoch() != 2 || into.Epoch() != 3 {
		t.Errorf("the original is %v in epoch %d, the copy in %d", l.State(0), l.Epoch(), into.Epoch())
	}
}

func TestStateNames(t *testing.T) {
	var got []string
	for _, s := range States() {
		got = append(got, s.String())
	}
	if want := []string{"up", "cold", "loading", "warm", "draining", "down", "absent"}; !reflect.DeepEqual(got, want) || State(9).String() != "State(9)" {
		t.Errorf("names %q", got)
	}
}
