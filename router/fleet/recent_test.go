package fleet

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// The replicas of [table], and what its first task falls short by on the small variant in
// time.
const (
	smallOnA, largeOnA = 0, 2
	presumed           = 0.5
)

// recentOf is what a view of the ledger tells, the latest first.
func recentOf(l *Ledger) Shortfalls {
	var v View
	l.View(0, &v)
	return v.Recent
}

// place begins a request of the first task where there is room.
func place(t *testing.T, l *Ledger, replica int) Lease {
	t.Helper()
	lease, ok := l.Begin(replica, 0)
	if !ok {
		t.Fatal("no place")
	}
	return lease
}

// shortfalls are those of a list, the latest first, and 0 from there on.
func shortfalls(list ...float32) (s Shortfalls) {
	copy(s[:], list)
	return s
}

// Until a request ends it counts as answered in time by the variant that was chosen, at the
// weight and quality of its task.
func TestRequestsAreTakenToBeInTime(t *testing.T) {
	l := NewLedger(table(t))
	for _, begin := range []struct{ replica, task int }{{largeOnA, 0}, {smallOnA, 0}, {smallOnA, 1}} {
		if _, ok := l.Begin(begin.replica, begin.task); !ok {
			t.Fatal("no place")
		}
	}
	other := l.table.Tasks[1]
	if got, want := recentOf(l), shortfalls(other.Shortfall(other.Weight*0.7), presumed, 0); got != want || want[0] <= 0.29 || want[0] >= 0.31 {
		t.Errorf("%v, want %v", got.Known(), want.Known())
	}
	if _, ok := l.Begin(smallOnA, 0); ok {
		t.Fatal("there is room")
	}
	if got := recentOf(l); got[0] == presumed {
		t.Errorf("a request without a place is among %v", got.Known())
	}
}

func TestShortfall(t *testing.T) {
	task := Task{Weight: 2, Quality: []float64{0.5, 1}}
	for utility, want := range map[float64]float32{2: 0, 1: 0.5, 0: 1, 2.5: 0} {
		if got := task.Shortfall(utility); got != want {
			t.Errorf("a utility of %v falls short by %v, want %v", utility, got, want)
		}
	}
	if got := (&Task{Quality: []float64{1}}).Shortfall(0); got != 0 {
		t.Errorf("where there is nothing to earn a request falls short by %v", got)
	}
}

// What a request fell short by is told in the order of decisions, whenever it ends, as long
// as it is among the latest; after that nothing is.
func TestShortfallsAreInTheOrderOfDecisions(t *testing.T) {
	l := NewLedger(table(t))
	first, second := place(t, l, largeOnA), place(t, l, smallOnA)
	third := place(t, l, largeOnA)
	third.Settle(0.25)
	third.End()
	first.Settle(1)
	if got, want := recentOf(l), shortfalls(0.25, presumed, 1); got != want {
		t.Errorf("%v, want %v", got.Known(), want.Known())
	}
	first.End()
	second.End()
	second.Settle(0.125) // its place may be another's by now
	if got, want := recentOf(l), shortfalls(0.25, 0.125, 1); got != want {
		t.Errorf("%v, want %v", got.Known(), want.Known())
	}
	for range RecentRequests - 3 {
		place(t, l, largeOnA).End()
	}
	if got := recentOf(l); got[RecentRequests-1] != 1 || got[RecentRequests-2] != 0.125 {
		t.Errorf("%v, want the first to be the last that is remembered", got)
	}
	place(t, l, largeOnA).End()
	first.Settle(0.75)
	second.Settle(0.5)
	if got := recentOf(l); got[RecentRequests-1] != 0.5 || slices.Contains(got[:], 0.75) || slices.Contains(got[:], 1) {
		t.Errorf("%v, want the first forgotten", got)
	}
	(Lease{}).Settle(1) // of no ledger
}

// A ledger remembers what a list of all requests ends with, whatever their number and in
// whatever order they are settled.
func TestRecentAgainstAList(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := NewLedger(table(t))
		var all []float32
		var leases []Lease
		for range 1000 {
			switch {
			case len(leases) == 0 || rng.IntN(3) > 0:
				replica, best := smallOnA, float32(presumed)
				if rng.IntN(2) == 0 {
					replica, best = largeOnA, 0
				}
				lease := place(t, l, replica)
				lease.End()
				all, leases = append(all, best), append(leases, lease)
			default: // of any age
				i := max(0, len(leases)-1-rng.IntN(100))
				shortfall := rng.Float32()
				leases[i].Settle(shortfall)
				all[i] = shortfall
			}
			var want Shortfalls
			for i := range min(len(all), RecentRequests) {
				want[i] = all[len(all)-1-i]
			}
			if got := recentOf(l); got != want {
				t.Fatalf("seed %d, %d requests: %v, want %v", seed, len(all), got, want)
			}
		}
	}
}

// Another place for a request is none for another request: either lease settles it.
func TestBeginAgainIsOneRequest(t *testing.T) {
	l := NewLedger(table(t))
	held := place(t, l, smallOnA)
	place(t, l, largeOnA).Settle(0.25)
	var v View
	l.View(0, &v)
	again, ok := l.BeginAgain(&v, held, largeOnA, 0)
	if !ok {
		t.Fatal("no place")
	}
	if got, want := recentOf(l), shortfalls(0.25, presumed); got != want {
		t.Errorf("%v, want %v", got.Known(), want.Known())
	}
	held.End()
	again.Settle(1)
	if got, want := recentOf(l), shortfalls(0.25, 1); got != want {
		t.Errorf("settled by the second place: %v, want %v", got.Known(), want.Known())
	}
	held.Settle(0.75)
	if got, want := recentOf(l), shortfalls(0.25, 0.75); got != want || l.InFlight() != 2 {
		t.Errorf("settled by the first: %v, want %v", got.Known(), want.Known())
	}
	if _, ok := l.BeginAgain(&v, held, largeOnA, 0); ok { // a view from before the places on that host
		t.Error("a place is taken on an old view")
	}
}

// A copy remembers what the original does, and what it is told after that alone.
func TestCopiesRememberOnTheirOwn(t *testing.T) {
	l, into := NewLedger(table(t)), NewLedger(table(t))
	place(t, into, smallOnA) // the destination has a past
	early := place(t, l, smallOnA)
	for range 70 {
		place(t, l, largeOnA).Settle(0.25)
	}
	late := place(t, l, smallOnA)
	into.CopyFrom(l)
	if got, want := recentOf(into), recentOf(l); got != want || got[0] != presumed || got[1] != 0.25 {
		t.Fatalf("the copy of %v is %v", want, got)
	}
	late.On(into).Settle(1)
	early.On(into).Settle(1)
	place(t, into, largeOnA)
	if got := recentOf(into); got[0] != 0 || got[1] != 1 || got[2] != 0.25 {
		t.Errorf("the copy tells %v", got)
	}
	if got := recentOf(l); got[0] != presumed || got[1] != 0.25 {
		t.Errorf("the original tells %v", got)
	}
}

// Requests that come and end side by side are each remembered once.
func TestRecentIsShared(t *testing.T) {
	l := NewLedger(table(t))
	const each, workers = 7, 9 // as many together as are remembered
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				lease, _ := l.Begin(largeOnA, 0)
				var v View
				l.View(0, &v)
				lease.Settle(1)
				lease.End()
			}
		})
	}
	all.Wait()
	if got := recentOf(l); got.Sum(RecentRequests) != each*workers {
		t.Errorf("%v, want all to be settled", got)
	}
}

func TestShortfallsAreSummed(t *testing.T) {
	s := shortfalls(0.5, 0, 0.25, 0)
	for n, want := range map[int]float64{0: 0, 1: 0.5, 2: 0.5, 3: 0.75, RecentRequests: 0.75} {
		if got := s.Sum(n); got != want {
			t.Errorf("the latest %d come to %v, want %v", n, got, want)
		}
	}
	if got := s.Known(); !slices.Equal(got, []float32{0.5, 0, 0.25}) {
		t.Errorf("known are %v", got)
	}
	if got := new(Shortfalls).Known(); len(got) != 0 {
		t.Errorf("of nothing is known %v", got)
	}
}
