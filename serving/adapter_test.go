package serving_test

import (
	"sync"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/work"
)

// hand is a clock that a test sets.
type hand struct {
	mu  sync.Mutex
	now time.Duration
}

func (h *hand) clock() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hand) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += d
}

// begun is work that has just arrived, and begun.
func begun(a *work.Adapter, r fleet.Request, variant int) (*work.Work, error) {
	w := a.Arrive(r)
	return w, w.Begin(variant, nil)
}

func TestEndReckonsWhatWorkWasWorth(t *testing.T) {
	const chat, copa = 0, 1
	ms := time.Millisecond
	for _, c := range []struct {
		name     string
		task     int
		variant  int
		deadline time.Duration
		outcome  work.Outcome
		latency  time.Duration
		tokens   int
		want     work.Result
	}{
		{"in time", chat, large, 0, work.Completed, 400 * ms, 10, work.Result{PerToken: 40 * ms, Judged: true, Met: true, Utility: 1}},
		{"too late", chat, large, 0, work.Completed, 401 * ms, 10, work.Result{PerToken: 40*ms + 100*time.Microsecond, Judged: true}},
		{"soft", copa, small, 0, work.Completed, 820 * ms, 10, work.Result{PerToken: 82 * ms, Judged: true, Utility: 2 * 0.98 * 0.75}},
		{"own deadline", chat, small, 100 * ms, work.Completed, 90 * ms, 1, work.Result{PerToken: 90 * ms, Judged: true, Met: true, Utility: 0.5}},
		{"length unknown", chat, small, 0, work.Completed, 5 * ms, 0, work.Result{}},
		{"failed", chat, small, 0, work.Failed, 5 * ms, 3, work.Result{Judged: true}},
		{"timed out", chat, small, 0, work.TimedOut, 5 * ms, 0, work.Result{Judged: true}},
		{"panicked", chat, small, 0, work.Panicked, 5 * ms, 0, work.Result{Judged: true}},
		{"refused", chat, small, 0, work.Refused, 5 * ms, 0, work.Result{}},
		{"cancelled", chat, small, 0, work.Cancelled, 5 * ms, 3, work.Result{}},
		{"expired", chat, small, 0, work.Expired, 5 * ms, 0, work.Result{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &hand{now: time.Hour}
			a := work.NewAdapter(testRouter(t, chooses(small)), h.clock)
			w, err := begun(a, fleet.Request{Task: c.task, Deadline: c.deadline}, c.variant)
			if err != nil {
				t.Fatal(err)
			}
			if w.Variant != c.variant || w.Policy != router.Pinned || w.Request.Arrival != time.Hour {
				t.Errorf("work %+v", w)
			}
			h.add(c.latency)
			c.want.Outcome, c.want.Latency, c.want.Tokens = c.outcome, c.latency, c.tokens
			if got, first := w.End(c.outcome, c.tokens); !first || got != c.want {
				t.Errorf("got  %+v, %v\nwant %+v", got, first, c.want)
			}
			if got, first := w.End(work.Completed, 10); first || got != (work.Result{}) {
				t.Errorf("a second end gave %+v, %v", got, first)
			}
		})
	}
}

func TestWorkEndsOnceAmongMany(t *testing.T) {
	core := testRouter(t, chooses(small))
	a := work.NewAdapter(core, work.WallClock())
	w, err := begun(a, fleet.Request{}, work.Auto)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ends := make(chan bool, 16)
	for range cap(ends) {
		all.Go(func() {
			_, first := w.End(work.Completed, 1)
			ends <- first
		})
	}
	all.Wait()
	close(ends)
	var firsts int
	for first := range ends {
		if first {
			firsts++
		}
	}
	if firsts != 1 || core.Ledger().InFlight() != 0 {
		t.Errorf("%d first ends, %d in flight", firsts, core.Ledger().InFlight())
	}
}

func TestMoveTakesAnotherReplicaOfTheVariant(t *testing.T) {
	core := testRouter(t, chooses(small))
	a := work.NewAdapter(core, work.WallClock())
	w, err := begun(a, fleet.Request{}, work.Auto)
	if err != nil {
		t.Fatal(err)
	}
	first := w.Replica
	if !w.Move([]int{w.Replica}, false) || w.Replica == first || core.Table().Replicas[w.Replica].Variant != small {
		t.Fatalf("moved from %d to %d", first, w.Replica)
	}
	var v fleet.View
	core.Ledger().View(0, &v)
	if v.InFlight[first] != 0 || v.InFlight[w.Replica] != 1 {
		t.Errorf("in flight %v after the move", v.InFlight)
	}
	core.Ledger().SetUp(first, false)
	if w.Move([]int{w.Replica}, false) {
		t.Errorf("moved to %d, which is down", w.Replica)
	}
	if _, first := w.End(work.Completed, 1); !first || core.Ledger().InFlight() != 0 {
		t.Errorf("%d in flight after the end", core.Ledger().InFlight())
	}
}

func TestHeldTokensFollowTheWork(t *testing.T) {
	h := &hand{}
	core := testRouter(t, chooses(small))
	a := work.NewAdapter(core, h.clock)
	held := func() (sum int) {
		t.Helper()
		probe, err := begun(a, fleet.Request{}, work.Auto)
		if err != nil {
			t.Fatal(err)
		}
		probe.End(work.Cancelled, 0)
		var v fleet.View
		core.Ledger().View(0, &v)
		for _, n := range v.Held {
			sum += int(n)
		}
		return sum
	}
	one, err := begun(a, fleet.Request{PromptTokens: 100}, small)
	if err != nil {
		t.Fatal(err)
	}
	two, err := begun(a, fleet.Request{PromptTokens: 20}, large)
	if err != nil {
		t.Fatal(err)
	}
	if n := held(); n != 120 {
		t.Errorf("two prompts hold %d tokens, want 120", n)
	}
	if one.FirstToken != 0 {
		t.Errorf("a first token after %v, before any", one.FirstToken)
	}
	h.add(time.Second)
	one.Progress(5)
	h.add(time.Second)
	one.Progress(7)
	if one.FirstToken != time.Second {
		t.Errorf("the first token came after %v, want 1s", one.FirstToken)
	}
	if n := held(); n != 127 {
		t.Errorf("7 tokens later they hold %d, want 127", n)
	}
	one.Move([]int{one.Replica}, false)
	if n := held(); n != 127 {
		t.Errorf("after a move they hold %d, want 127", n)
	}
	one.End(work.Completed, 7)
	one.End(work.Completed, 7)
	if n := held(); n != 20 {
		t.Errorf("after an end they hold %d, want 20", n)
	}
	two.End(work.Failed, 0)
	if n := held(); n != 0 {
		t.Errorf("in the end they hold %d", n)
	}
}

// Who decides knows the tightest deadline of the requests on each replica.
func TestDeadlinesFollowTheWork(t *testing.T) {
	const ms = time.Millisecond
	core := testRouter(t, chooses(large))
	a := work.NewAdapter(core, work.WallClock())
	begin := func(task int, deadline time.Duration) *work.Work {
		t.Helper()
		w, err := begun(a, fleet.Request{Task: task, Deadline: deadline}, small)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	want := func(onA, onB time.Duration) {
		t.Helper()
		var v fleet.View
		core.Ledger().HoldEach([]int{smallOnA, smallOnB}, a)
		core.Ledger().View(0, &v)
		if v.Tightest(smallOnA) != onA || v.Tightest(smallOnB) != onB {
			t.Errorf("tightest %v and %v, want %v and %v", v.Tightest(smallOnA), v.Tightest(smallOnB), onA, onB)
		}
	}
	want(0, 0)
	chat := begin(0, 0)   // hard, 40 ms, on a
	copied := begin(1, 0) // soft, until 88 ms, on b
	own := begin(0, 15*ms)
	want(15*ms, 88*ms)
	own.End(work.Completed, 1)
	want(40*ms, 88*ms)
	chat.Move([]int{smallOnA}, false)
	want(0, 40*ms)
	chat.End(work.Failed, 0)
	chat.End(work.Failed, 0)
	want(0, 88*ms)
	copied.End(work.Cancelled, 0)
	want(0, 0)
}
