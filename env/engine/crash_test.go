package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/env/engine"
)

// A crash at any moment names each sequence once, and what comes after runs as
// on a new engine: nothing of the past takes memory or time.
func TestCrashLeavesNothingBehind(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		rng := rand.New(rand.NewPCG(1, 2))
		for round := range 50 {
			w := small(t, scheduler, 6)
			known := map[uint64]bool{}
			for id := range uint64(1 + rng.IntN(20)) {
				w.Submit(0, engine.Sequence{ID: id, PromptTokens: 1 + rng.IntN(90), OutputTokens: 1 + rng.IntN(60)}, 0)
				known[id] = true
			}
			for range rng.IntN(80) {
				if _, ok := w.Next(); !ok {
					break
				}
				for _, x := range w.step() {
					if x.Kind == engine.Finished {
						delete(known, x.ID)
					}
				}
			}
			w.Break(-1, 0, func(id uint64) {
				if !known[id] {
					t.Errorf("round %d: %d is lost twice, or had ended", round, id)
				}
				delete(known, id)
			})
			w.check()
			if _, busy := w.Next(); busy || len(known) > 0 || w.engines[0].Load() != 0 || w.engines[0].Held() != 0 {
				t.Fatalf("round %d: after a crash %d are not named, load %d, %d tokens held", round, len(known), w.engines[0].Load(), w.engines[0].Held())
			}
			at := w.now
			if got, want := timeline(w, at), timeline(watch(t, w.fresh()), at); got != want {
				t.Fatalf("round %d: after a crash\n%s\nnew\n%s", round, got, want)
			}
		}
	}
}

// timeline runs a fixed crowd of sequences from a moment on.
func timeline(w *watched, from time.Duration) string {
	w.now = from
	for id := range uint64(9) {
		w.Submit(0, engine.Sequence{ID: id, PromptTokens: 20 + 7*int(id), OutputTokens: 40 - 3*int(id)}, from)
	}
	return fmt.Sprint(w.drain())
}

// All engines of the host are lost, and the same ones in the same order every time.
func TestCrashTakesTheWholeHost(t *testing.T) {
	crash := func() (ids []uint64) {
		c := engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 64, MaxSequences: 2, BlockTokens: 8}
		w := watch(t, newEngine(t, c, plain, 256), newEngine(t, c, plain, 256))
		for id := range uint64(8) {
			w.Submit(int(id%2), engine.Sequence{ID: id, PromptTokens: 10, OutputTokens: 5}, 0)
		}
		w.step()
		w.Break(-1, 0, func(id uint64) { ids = append(ids, id) })
		return ids
	}
	ids := crash()
	if again := crash(); !slices.Equal(ids, again) {
		t.Errorf("lost %v, then %v", ids, again)
	}
	if slices.Sort(ids); !slices.Equal(ids, []uint64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("lost %v of 8 on two engines", ids)
	}
}
