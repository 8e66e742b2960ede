package engine_test

import (
	"testing"
	"time"

	"gearshift/env/engine"
)

// small is an engine of 1 ms steps, with a cache of 256 tokens.
func small(t testing.TB, scheduler string, sequences int) *watched {
	c := engine.Config{Scheduler: scheduler, MaxBatchTokens: 64, MaxSequences: sequences, BlockTokens: 8}
	fresh := func() *engine.Engine { return newEngine(t, c, plain, 256) }
	w := watch(t, fresh())
	w.fresh = fresh
	return w
}

func wantNothingOf(t *testing.T, id uint64, events []engine.Event) {
	t.Helper()
	for _, x := range events {
		if x.ID == id {
			t.Errorf("the cancelled sequence %d still has event %v at %v", id, x.Kind, x.At)
		}
	}
}

func TestCancelWaiting(t *testing.T) {
	w := small(t, engine.PrefillFirst, 1)
	for id := range uint64(4) {
		w.Submit(0, engine.Sequence{ID: id, PromptTokens: 10, OutputTokens: 5}, 0)
	}
	if !w.Cancel(0, 2) || w.engines[0].Load() != 3 {
		t.Fatalf("%d sequences after the cancellation of one of four that waits", w.engines[0].Load())
	}
	if w.Cancel(0, 2) || w.Cancel(0, 99) {
		t.Error("a sequence that is gone, or never was, is cancelled")
	}
	events := w.drain()
	wantNothingOf(t, 2, events)
	if len(events) != 3*2 || w.now != 3*5*time.Millisecond {
		t.Errorf("%d events until %v, want those of three sequences in 15 ms", len(events), w.now)
	}
	if w.Cancel(0, 0) {
		t.Error("a finished sequence is cancelled")
	}
	w.wantEmpty(256)
}

// A running sequence leaves with the step in progress, and the others never
// notice but for the place it leaves.
func TestCancelRunning(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		for steps := range 5 { // 0: during its own prefill; 4: during the step of its last token
			w := small(t, scheduler, 2)
			w.Submit(0, engine.Sequence{ID: 0, PromptTokens: 20, OutputTokens: 5}, 0)
			for range steps {
				w.step()
			}
			w.Submit(0, engine.Sequence{ID: 1, PromptTokens: 9, OutputTokens: 3}, w.now)
			if !w.Cancel(0, 0) {
				t.Fatalf("%s, after %d steps: the running sequence is not known", scheduler, steps)
			}
			w.check()
			events := w.drain()
			wantNothingOf(t, 0, events)
			if len(events) != 2 {
				t.Errorf("%s, after %d steps: events %v, want the other's two", scheduler, steps, events)
			}
			// The step in progress, then the other's prefill and two decodes.
			if want := time.Duration(steps+1+3) * time.Millisecond; w.now != want {
				t.Errorf("%s, after %d steps: the other ends at %v, want %v", scheduler, steps, w.now, want)
			}
			w.wantEmpty(256)
		}
	}
}

// A prompt of which a part is done gives all its blocks back.
func TestCancelPartialPrefill(t *testing.T) {
	w := small(t, engine.ChunkedPrefill, 4)
	w.Submit(0, engine.Sequence{ID: 0, PromptTokens: 200, OutputTokens: 5}, 0) // four chunks
	w.step()
	w.Submit(0, engine.Sequence{ID: 1, PromptTokens: 100, OutputTokens: 2}, w.now)
	if w.engines[0].Load() != 2 || !w.Cancel(0, 0) || !w.Cancel(0, 0) {
		t.Fatal("the sequence in prefill is not known until the step ends")
	}
	events := w.drain()
	wantNothingOf(t, 0, events)
	// Its second chunk ends at 2 ms; the other takes two chunks and a decode.
	if len(events) != 2 || w.now != 5*time.Millisecond {
		t.Errorf("events %v until %v, want the other's two until 5 ms", events, w.now)
	}
	w.wantEmpty(256)
}

// Cancelling all that runs at once leaves the engine idle and whole.
func TestCancelEverything(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		w := small(t, scheduler, 3)
		for id := range uint64(6) {
			w.Submit(0, engine.Sequence{ID: id, PromptTokens: 30, OutputTokens: 30}, 0)
		}
		for range 5 {
			w.step()
		}
		for id := range uint64(6) {
			if !w.Cancel(0, id) {
				t.Errorf("%s: sequence %d is not known", scheduler, id)
			}
		}
		if events := w.drain(); len(events) != 0 {
			t.Errorf("%s: events %v after all are cancelled", scheduler, events)
		}
		w.wantEmpty(256)
	}
}
