package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/router/profile"
)

// table is a cost model by formula: kinds differ in pace, and so many run at once.
type table struct{ most int }

func (t table) Most(kind int) int { return t.most + kind }

func (t table) Batch(kind, n int, neighbours float64) (ms, gpu float64) {
	gpu = float64(3+kind) + 0.7*float64(n)
	return gpu*(1+0.5*neighbours) + 1, gpu
}

// naiveBatching is an engine that runs batches to their end, the obvious way.
type naiveBatching struct {
	most    int
	window  time.Duration
	cost    profile.Batching
	waiting []arrived
	batch   []arrived
	busy    bool
	ends    time.Duration
	until   time.Duration // it waits
}

type arrived struct {
	Sequence
	at        time.Duration
	cancelled bool
}

// wake lets it begin what it can at this moment, and says when to look again.
func (n *naiveBatching) wake(now time.Duration) {
	if len(n.waiting) == 0 || n.busy {
		return
	}
	head := n.waiting[0]
	most := min(n.most, n.cost.Most(head.Kind))
	var batch, rest []arrived
	for _, w := range n.waiting {
		if w.Kind == head.Kind && len(batch) < most {
			batch = append(batch, w)
		} else {
			rest = append(rest, w)
		}
	}
	if len(batch) < most && now < head.at+n.window {
		n.until = head.at + n.window
		return
	}
	ms, _ := n.cost.Batch(head.Kind, len(batch), 0)
	n.batch, n.waiting, n.busy = batch, rest, true
	n.ends = now + profile.Duration(ms)
}

// next is when something happens by itself.
func (n *naiveBatching) next() (time.Duration, bool) {
	switch {
	case n.busy:
		return n.ends, true
	case len(n.waiting) > 0:
		return n.until, true
	}
	return 0, false
}

func (n *naiveBatching) step(now time.Duration) (out []Event) {
	if n.busy {
		for _, w := range n.batch {
			if !w.cancelled {
				out = append(out, Event{ID: w.ID, At: now, Kind: FirstToken}, Event{ID: w.ID, At: now, Kind: Finished})
			}
		}
		n.busy, n.batch = false, nil
	}
	n.wake(now)
	return out
}

func (n *naiveBatching) cancel(id uint64) bool {
	if i := slices.IndexFunc(n.waiting, func(w arrived) bool { return w.ID == id }); i >= 0 {
		n.waiting = slices.Delete(n.waiting, i, i+1)
		return true
	}
	i := slices.IndexFunc(n.batch, func(w arrived) bool { return w.ID == id })
	if i >= 0 {
		n.batch[i].cancelled = true
	}
	return i >= 0
}

// TestBatchingAgainstNaiveModel plays random sequences of three kinds, and cancels some,
// with and without a window: the same events at the same times.
func TestBatchingAgainstNaiveModel(t *testing.T) {
	full := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := Config{MaxSequences: 1 + rng.IntN(9), BatchWindowMS: float64(rng.IntN(3)) * 4}
		cost := table{1 + rng.IntN(6)}
		e, err := NewBatching(c, cost)
		if err != nil {
			t.Fatal(err)
		}
		h, n := NewHost(e), &naiveBatching{most: c.MaxSequences, window: c.window(), cost: cost}
		load := 0.5 + 8*rng.Float64() // ms between arrivals
		var now time.Duration
		for id := uint64(0); id < 300; {
			at, busy := h.Next()
			wantAt, wantBusy := n.next()
			if at != wantAt || busy != wantBusy {
				t.Fatalf("seed %d at %v: next is at %v (%t), naive model %v (%t)", seed, now, at, busy, wantAt, wantBusy)
			}
			if busy && at <= now {
				got, want := h.Step(nil), n.step(at)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d at %v: events %v, naive model %v", seed, at, got, want)
				}
				full = max(full, len(got)/2)
			} else if back := uint64(rng.IntN(20)); rng.IntN(6) == 0 && id > back {
				if got, want := h.Cancel(0, id-1-back), n.cancel(id-1-back); got != want {
					t.Fatalf("seed %d at %v: cancelled %t, naive model %t", seed, now, got, want)
				}
			} else {
				s := Sequence{ID: id, PromptTokens: rng.IntN(50), OutputTokens: rng.IntN(3), Kind: rng.IntN(3)}
				id++
				h.Submit(0, s, now)
				n.waiting = append(n.waiting, arrived{Sequence: s, at: now})
				n.wake(now)
				now += time.Duration(rng.ExpFloat64() * load * float64(time.Millisecond))
			}
			if err := e.CheckInvariants(); err != nil {
				t.Fatalf("seed %d at %v: %v", seed, now, err)
			}
		}
	}
	if full < 4 {
		t.Errorf("the largest batch is of %d: the test lost its load", full)
	}
}

// With batches of one it is the queue M/D/1, whose mean wait is ρ/(2(1−ρ)) service times.
func TestBatchesOfOneAreMD1(t *testing.T) {
	const service, load, requests = 10.0, 0.7, 200_000
	times, err := profile.NewBatches(map[string]map[int]float64{"": {1: service}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{MaxSequences: 8}, &profile.Profile{Batches: times}, 0)
	if err != nil {
		t.Fatal(err)
	}
	h, rng := NewHost(e), rand.New(rand.NewPCG(7, 7))
	came := make([]time.Duration, requests)
	var now time.Duration
	var waited float64
	var events []Event
	for id := range came {
		now += time.Duration(rng.ExpFloat64() * service / load * float64(time.Millisecond))
		for at, ok := h.Next(); ok && at <= now; at, ok = h.Next() {
			events = h.Step(events[:0])
			for _, x := range events {
				if x.Kind == Finished {
					waited += (x.At-came[x.ID]).Seconds()*1000 - service
				}
			}
		}
		came[id] = now
		h.Submit(0, Sequence{ID: uint64(id)}, now)
	}
	got, want := waited/requests, service*load/(2*(1-load))
	if math.Abs(got/want-1) > 0.03 {
		t.Errorf("the mean wait is %.3f ms, by theory %.3f", got, want)
	}
}

// Engines of both sorts slow each other by their duties, as they are when a step begins.
func TestBatchesBesideTokens(t *testing.T) {
	tokens := &profile.Profile{Weights: 10, Overhead: 2, Contention: 0.5}
	times, err := profile.NewBatches(map[string]map[int]float64{"": {1: 8, 2: 10}})
	if err != nil {
		t.Fatal(err)
	}
	classes := &profile.Profile{Overhead: 2, Contention: 0.5, Batches: times}
	c := Config{Scheduler: PrefillFirst, MaxBatchTokens: 512, MaxSequences: 8, BlockTokens: 16}
	var engines []*Engine
	for _, p := range []*profile.Profile{tokens, classes} {
		e, err := New(c, p, 1000)
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, e)
	}
	h := NewHost(engines...)
	var took []float64
	h.Observe = func(s Step) { took = append(took, (s.End-s.Start).Seconds()*1000) }
	h.Submit(1, Sequence{ID: 0}, 0) // 8 ms, 6 of them on the GPU: a duty of 3/4
	h.Submit(0, Sequence{ID: 1, PromptTokens: 1, OutputTokens: 2}, time.Millisecond)
	h.Submit(1, Sequence{ID: 2}, 2*time.Millisecond)
	h.Submit(1, Sequence{ID: 3}, 3*time.Millisecond)
	for range 4 {
		h.Step(nil)
	}
	prefill := 10*(1+0.5*0.75) + 2
	batch := 8*(1+0.5*10/prefill) + 2 // of two, beside the prefill
	decode := 10*(1+0.5*8/batch) + 2
	for i, want := range []float64{8, prefill, batch, decode} {
		if i >= len(took) || math.Abs(took[i]-want) > 1e-5 {
			t.Fatalf("steps take %v ms, want step %d to take %v", took, i, want)
		}
	}
}

// A copy goes on as the original; what is crashed is empty.
func TestBatchingCopyAndCrash(t *testing.T) {
	e, err := NewBatching(Config{MaxSequences: 3, BatchWindowMS: 5}, table{4})
	if err != nil {
		t.Fatal(err)
	}
	h := NewHost(e)
	identity := func(id uint64) uint64 { return id }
	for id := range uint64(12) {
		h.Submit(0, Sequence{ID: id, PromptTokens: 2, Kind: int(id) % 2}, time.Duration(id)*time.Millisecond)
		for at, ok := h.Next(); ok && at <= time.Duration(id)*time.Millisecond; at, ok = h.Next() {
			h.Step(nil)
		}
	}
	var other Host
	other.CopyFrom(h)
	other.Submit(0, Sequence{ID: 12}, 12*time.Millisecond)
	if other.Fingerprint(identity) == h.Fingerprint(identity) {
		t.Error("one more that waits has the same fingerprint")
	}
	other.CopyFrom(h)
	if other.Fingerprint(identity) != h.Fingerprint(identity) {
		t.Error("a copy has another fingerprint")
	}
	for range 20 {
		if got, want := other.Step(nil), h.Step(nil); !slices.Equal(got, want) {
			t.Fatalf("the copy's events are %v, want %v", got, want)
		}
	}
	if _, busy := h.Next(); busy || e.Load() != 0 {
		t.Fatalf("busy %t with %d sequences after 20 steps", busy, e.Load())
	}
	for id := range uint64(5) {
		h.Submit(0, Sequence{ID: id}, time.Second)
	}
	var lost []uint64
	h.Break(-1, 0, func(id uint64) { lost = append(lost, id) })
	if _, busy := h.Next(); busy || e.Load() != 0 || len(lost) != 5 {
		t.Errorf("after a crash busy %t with %d sequences, %v lost", busy, e.Load(), lost)
	}
	if err := e.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// A window is from the coming of the first: one that nobody waits in ends.
func TestBatchingWindow(t *testing.T) {
	e, err := NewBatching(Config{MaxSequences: 2, BatchWindowMS: 10}, table{4})
	if err != nil {
		t.Fatal(err)
	}
	h, ms := NewHost(e), time.Millisecond
	next := func(want time.Duration) {
		t.Helper()
		if at, ok := h.Next(); !ok || at != want {
			t.Errorf("next is at %v (%t), want %v", at, ok, want)
		}
	}
	h.Submit(0, Sequence{ID: 0}, 0)
	next(10 * ms)
	h.Cancel(0, 0)
	if at, ok := h.Next(); ok {
		t.Errorf("waits until %v for nobody", at)
	}
	h.Submit(0, Sequence{ID: 1}, 4*ms)
	next(14 * ms)
	h.Submit(0, Sequence{ID: 2}, 6*ms) // full
	next(6*ms + profile.Duration(3+1.4+1))
	h.Submit(0, Sequence{ID: 3}, 7*ms)
	h.Step(nil)
	next(17 * ms) // since 7 ms
	h.Step(nil)
	next(17*ms + profile.Duration(3+0.7+1))
	if _, err := NewBatching(Config{MaxSequences: 0, BatchWindowMS: -1}, table{4}); err == nil || err.Error() != "cannot make engine: max_sequences: 0 must be at least 1\nbatch_window_ms: -1 must be from 0 to 3600000, an hour" {
		t.Errorf("got %v", err)
	}
}

func TestBatchingDoesNotAllocate(t *testing.T) {
	e, err := NewBatching(Config{MaxSequences: 8}, table{8})
	if err != nil {
		t.Fatal(err)
	}
	h := NewHost(e)
	var now time.Duration
	var events []Event
	run := func() {
		for id := range uint64(20) {
			h.Submit(0, Sequence{ID: id, Kind: int(id) % 2}, now)
		}
		for at, ok := h.Next(); ok; at, ok = h.Next() {
			events, now = h.Step(events[:0]), at
		}
	}
	run()
	if n := testing.AllocsPerRun(50, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
