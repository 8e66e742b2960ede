package engine_test

import (
	"testing"
	"time"

	"gearshift/env/engine"
	"gearshift/router/profile"
)

// plain costs 1 ms a step and nothing else, so that times count steps.
var plain = &profile.Profile{Overhead: 1}

func newEngine(t testing.TB, c engine.Config, p *profile.Profile, kvTokens int) *engine.Engine {
	t.Helper()
	e, err := engine.New(c, p, kvTokens)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// watched is a host whose engines are checked after every step.
type watched struct {
	*engine.Host
	t       testing.TB
	engines []*engine.Engine
	fresh   func() *engine.Engine // as the first engine was
	now     time.Duration
}

func watch(t testing.TB, engines ...*engine.Engine) *watched {
	return &watched{Host: engine.NewHost(engines...), t: t, engines: engines}
}

func (w *watched) check() {
	w.t.Helper()
	for i, e := range w.engines {
		if err := e.CheckInvariants(); err != nil {
			w.t.Fatalf("engine %d at %v: %v", i, w.now, err)
		}
	}
}

// step ends the step in progress; there must be one.
func (w *watched) step() []engine.Event {
	w.t.Helper()
	at, ok := w.Next()
	if !ok || at < w.now {
		w.t.Fatalf("the next step ends at %v (%t), and it is %v", at, ok, w.now)
	}
	w.now = at
	events := w.Step(nil)
	w.check()
	return events
}

// drain steps until all engines are idle.
func (w *watched) drain() (events []engine.Event) {
	w.t.Helper()
	for {
		if _, ok := w.Next(); !ok {
			return events
		}
		events = append(events, w.step()...)
	}
}

// wantEmpty fills the whole cache of the first engine with one sequence, which
// must take as long as in a fresh engine: nothing that left before holds a block.
func (w *watched) wantEmpty(kvTokens int) {
	w.t.Helper()
	if n := w.engines[0].Load(); n != 0 {
		w.t.Fatalf("%d sequences are left", n)
	}
	fill := func(w *watched) time.Duration {
		began := w.now
		w.Submit(0, engine.Sequence{ID: 1 << 40, PromptTokens: kvTokens - 2, OutputTokens: 2}, began)
		w.drain()
		return w.now - began
	}
	if got, want := fill(w), fill(watch(w.t, w.fresh())); got != want {
		w.t.Errorf("a sequence as large as the cache takes %v, in a fresh engine %v", got, want)
	}
}

// A step is slowed by the duties of the neighbours that are busy when it begins:
// by none when it is alone, by their sum when there are several.
func TestContentionArithmetic(t *testing.T) {
	p := &profile.Profile{LaunchFloor: 1, Weights: 10, Growth: 0.003, Token: 0.05, Context: 0.001, Overhead: 1.5, Sequence: 0.2, Contention: 0.15}
	c := engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 512, MaxSequences: 8, BlockTokens: 16}
	w := watch(t, newEngine(t, c, p, 2000), newEngine(t, c, p, 2000), newEngine(t, c, p, 2000))
	var steps []engine.Step
	w.Observe = func(s engine.Step) { steps = append(steps, s) }

	w.Submit(0, engine.Sequence{ID: 0, PromptTokens: 400, OutputTokens: 2}, 0)
	w.Submit(1, engine.Sequence{ID: 1, PromptTokens: 200, OutputTokens: 2}, time.Millisecond)
	w.Submit(2, engine.Sequence{ID: 2, PromptTokens: 90, OutputTokens: 1}, 2*time.Millisecond)
	w.drain()

	first, duty0 := p.Step(400, 1, 0, 0)
	second, duty1 := p.Step(200, 1, 0, duty0)
	third, _ := p.Step(90, 1, 0, duty0+duty1)
	// The third is idle again when the second decodes, beside the first's prefill;
	// the first decodes beside that.
	secondDecode, dutyDecode := p.Step(1, 1, 201, duty0)
	firstDecode, _ := p.Step(1, 1, 401, dutyDecode)
	want := []float64{first, second, third, secondDecode, firstDecode}
	if len(steps) != len(want) {
		t.Fatalf("%d steps, want %d: %+v", len(steps), len(want), steps)
	}
	for i, s := range steps {
		if got := s.End - s.Start; got != profile.Duration(want[i]) {
			t.Errorf("step %d, of engine %d from %v: %v, want %v", i, s.Engine, s.Start, got, profile.Duration(want[i]))
		}
	}
	if alone, _ := p.Step(200, 1, 0, 0); second < 1.05*alone {
		t.Errorf("%v ms beside a neighbour, %v alone: the test lost its contention", second, alone)
	}
}

// A chunked step costs its new tokens, decoded and prefilled, and reads the
// context of the sequences that decode.
func TestChunkedPrefillCost(t *testing.T) {
	p := &profile.Profile{LaunchFloor: 1, Weights: 5, Growth: 0.003, Token: 0.05, Context: 0.001, Overhead: 1.5, Sequence: 0.2}
	c := engine.Config{Scheduler: engine.ChunkedPrefill, MaxBatchTokens: 64, MaxSequences: 8, BlockTokens: 16}
	w := watch(t, newEngine(t, c, p, 2000))
	var steps []engine.Step
	w.Observe = func(s engine.Step) { steps = append(steps, s) }
	w.Submit(0, engine.Sequence{ID: 0, PromptTokens: 30, OutputTokens: 4}, 0)
	w.Submit(0, engine.Sequence{ID: 1, PromptTokens: 100, OutputTokens: 2}, 0)
	w.drain()

	type cost struct{ tokens, sequences, context int }
	want := []cost{
		{30, 1, 0},       // the first prompt, alone in the engine when it came
		{64, 2, 31},      // one decodes, 63 tokens of the second prompt
		{38, 2, 32},      // one decodes, the 37 that are left
		{2, 2, 33 + 101}, // both decode, and end
	}
	if len(steps) != len(want) {
		t.Fatalf("%d steps, want %d: %+v", len(steps), len(want), steps)
	}
	for i, s := range steps {
		ms, _ := p.Step(want[i].tokens, want[i].sequences, want[i].context, 0)
		if s.Tokens != want[i].tokens || s.End-s.Start != profile.Duration(ms) {
			t.Errorf("step %d: %d tokens in %v, want %d in %v", i, s.Tokens, s.End-s.Start, want[i].tokens, profile.Duration(ms))
		}
	}
}

// The newest sequences are sent back when the cache is full, and recomputed: all
// still yield exactly their tokens, once, and first come is first served.
func TestPreemptionConservesTokens(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		c := engine.Config{Scheduler: scheduler, MaxBatchTokens: 64, MaxSequences: 8, BlockTokens: 8}
		e := newEngine(t, c, plain, 240)
		w := watch(t, e)
		w.fresh = func() *engine.Engine { return newEngine(t, c, plain, 240) }
		var prefilled int
		w.Observe = func(s engine.Step) { prefilled += s.Tokens - s.Decoding }
		const n, prompt, output = 6, 20, 100
		for id := range uint64(n) {
			w.Submit(0, engine.Sequence{ID: id, PromptTokens: prompt, OutputTokens: output}, 0)
		}
		var finished []uint64
		first := map[uint64]int{}
		for _, x := range w.drain() {
			if x.Kind == engine.FirstToken {
				first[x.ID]++
			} else {
				finished = append(finished, x.ID)
			}
		}
		if e.Preemptions() == 0 || prefilled <= n*prompt {
			t.Fatalf("%s: %d preemptions, %d tokens prefilled: the test lost its pressure", scheduler, e.Preemptions(), prefilled)
		}
		if e.Produced() != n*output {
			t.Errorf("%s: %d tokens produced, want %d", scheduler, e.Produced(), n*output)
		}
		for i, id := range finished {
			if id != uint64(i) || first[id] != 1 {
				t.Errorf("%s: finished in order %v, first tokens %v", scheduler, finished, first)
				break
			}
		}
		if len(finished) != n {
			t.Errorf("%s: %d of %d finished", scheduler, len(finished), n)
		}
		w.wantEmpty(240)
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	err := engine.Config{Scheduler: "fifo", MaxBatchTokens: 0, MaxSequences: -1, BlockTokens: 0}.Validate()
	const want = `scheduler: "fifo" is neither prefill-first nor chunked-prefill
max_batch_tokens: 0 must be at least 1
max_sequences: -1 must be at least 1
block_tokens: 0 must be at least 1`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	c := engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 64, MaxSequences: 8, BlockTokens: 16}
	if _, err := engine.New(c, plain, 15); err == nil {
		t.Error("a cache of less than a block is taken")
	}
	e := newEngine(t, c, plain, 47) // two blocks
	for _, s := range []struct {
		prompt, output int
		fits           bool
	}{{16, 16, true}, {31, 1, true}, {32, 1, false}, {0, 1, false}, {1, 0, false}} {
		if e.Fits(engine.Sequence{PromptTokens: s.prompt, OutputTokens: s.output}) != s.fits {
			t.Errorf("prompt %d, output %d: fits is not %t", s.prompt, s.output, s.fits)
		}
	}
}
