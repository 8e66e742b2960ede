package serving_test

import (
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/work"
)

// recentOf is what the next decision is told of the latest requests.
func recentOf(core *router.Core) fleet.Shortfalls {
	var v fleet.View
	core.Ledger().View(0, &v)
	return v.Recent
}

// However work ends, what is remembered of it is by how much it fell short of its peak: an
// answer that never came by all, and what nobody can judge by what was presumed of it.
func TestEndsAreRemembered(t *testing.T) {
	const presumed = 0.5 // of an answer of the small variant in time
	ms := time.Millisecond
	for _, c := range []struct {
		name    string
		task    int
		variant int
		outcome work.Outcome
		latency time.Duration
		tokens  int
		want    float32
	}{
		{"at its peak", 0, large, work.Completed, 400 * ms, 10, 0},
		{"in time", 0, small, work.Completed, 400 * ms, 10, presumed},
		{"too late", 0, large, work.Completed, 401 * ms, 10, 1},
		{"soft", 1, small, work.Completed, 840 * ms, 10, 1 - 0.96*0.75},
		{"length unknown", 0, small, work.Completed, 900 * ms, 0, presumed},
		{"failed", 0, large, work.Failed, 5 * ms, 3, 1},
		{"timed out", 0, small, work.TimedOut, 5 * ms, 0, 1},
		{"panicked", 0, large, work.Panicked, 5 * ms, 0, 1},
		{"refused", 0, small, work.Refused, 5 * ms, 0, presumed},
		{"cancelled", 0, small, work.Cancelled, 900 * ms, 1, presumed},
		{"cancelled at its peak", 0, large, work.Cancelled, 900 * ms, 1, 0},
		{"expired", 0, small, work.Expired, 900 * ms, 0, presumed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &hand{now: time.Hour}
			core := testRouter(t, chooses(small))
			a := work.NewAdapter(core, h.clock)
			w, err := begun(a, fleet.Request{Task: c.task}, c.variant)
			if err != nil {
				t.Fatal(err)
			}
			later, err := begun(a, fleet.Request{}, large)
			if err != nil {
				t.Fatal(err)
			}
			before := recentOf(core)
			task := core.Table().Tasks[c.task]
			if want := 1 - float32(task.Quality[c.variant]); before[1] != want {
				t.Errorf("presumed is %v, want %v", before[1], want)
			}
			h.add(c.latency)
			w.End(c.outcome, c.tokens)
			w.End(work.Failed, 0) // the second counts for nothing
			if got := recentOf(core); got[1] != c.want || got[0] != before[0] {
				t.Errorf("remembered are %v, want %v for the one before the latest", got.Known(), c.want)
			}
			later.End(work.Cancelled, 0)
		})
	}
}

// Work that another variant takes over is remembered as of that, as if it had been decided
// so; it stays one request, and its end is that of the variant that answered.
func TestMovesAreRemembered(t *testing.T) {
	h := &hand{now: time.Hour}
	core := testRouter(t, chooses(small))
	a := work.NewAdapter(core, h.clock)
	w, err := begun(a, fleet.Request{}, small)
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, shortfall float32) {
		t.Helper()
		if got := recentOf(core); got[0] != shortfall || got[1] != 0 {
			t.Errorf("%s: remembered are %v, want %v of one request", what, got.Known(), shortfall)
		}
	}
	want("chosen", 0.5)
	if !w.Move([]int{w.Replica}, false) || w.Variant != small {
		t.Fatalf("moved to variant %d", w.Variant)
	}
	want("on another replica", 0.5)
	if w.MoveTo(small, []int{smallOnA, smallOnB}) {
		t.Fatal("moved where there is none")
	}
	want("not moved", 0.5)
	if !w.MoveTo(large, nil) {
		t.Fatal("not moved")
	}
	want("on the large variant", 0)
	if !w.MoveTo(small, nil) {
		t.Fatal("not moved")
	}
	want("and back", 0.5)
	if !w.MoveTo(large, nil) {
		t.Fatal("not moved")
	}
	h.add(40 * time.Millisecond)
	w.End(work.Completed, 1)
	want("answered by the large variant", 0)
}
