package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/router/profile"
)

// naive is the engine of the design written the slow, obvious way: every step
// walks every sequence and counts its blocks anew.
type naive struct {
	config  Config
	profile *profile.Profile
	blocks  int
	waiting []*naiveSequence
	running []*naiveSequence // in order of admission
	partial *naiveSequence
	joining []*naiveSequence
	decodes []*naiveSequence // that take part in the step
}

type naiveSequence struct {
	Sequence
	generated, cached, held int
}

func (n *naive) free() int {
	free := n.blocks
	for _, list := range [][]*naiveSequence{n.running, n.joining} {
		for _, q := range list {
			free -= q.held
		}
	}
	if n.partial != nil {
		free -= n.partial.held
	}
	return free
}

func (n *naive) blocksFor(tokens int) int {
	return (tokens + n.config.BlockTokens - 1) / n.config.BlockTokens
}

func (n *naive) admit() (*naiveSequence, bool) {
	if len(n.waiting) == 0 {
		return nil, false
	}
	q, running := n.waiting[0], len(n.running)+len(n.joining)
	left := n.free() - n.blocksFor(q.PromptTokens+q.generated)
	reserve := 0
	if running > 0 {
		reserve = n.blocks / 100
	}
	return q, running < n.config.MaxSequences && left >= reserve
}

func (n *naive) take(q *naiveSequence) {
	n.waiting = n.waiting[1:]
	q.held, q.cached = n.blocksFor(q.PromptTokens+q.generated), 0
}

func (n *naive) decode() {
	need := func() (sum int) {
		for _, q := range n.running {
			sum += n.blocksFor(q.PromptTokens+q.generated) - q.held
		}
		return sum
	}
	for need() > n.free() {
		var q *naiveSequence
		if n.partial != nil {
			q, n.partial = n.partial, nil
		} else {
			q, n.running = n.running[len(n.running)-1], n.running[:len(n.running)-1]
		}
		q.held = 0
		n.waiting = slices.Insert(n.waiting, 0, q)
	}
	for _, q := range n.running {
		q.held = n.blocksFor(q.PromptTokens + q.generated)
	}
	n.decodes = slices.Clone(n.running)
}

func (n *naive) begin() (ms float64, ok bool) {
	n.decodes, n.joining = nil, nil
	tokens := 0
	budget := n.config.MaxBatchTokens
	if n.config.Scheduler == PrefillFirst {
		for budget > 0 && (n.config.MaxPrompts == 0 || len(n.joining) < n.config.MaxPrompts) {
			q, ok := n.admit()
			if !ok || len(n.joining) > 0 && q.PromptTokens+q.generated > budget {
				break
			}
			n.take(q)
			n.joining = append(n.joining, q)
			tokens += q.PromptTokens + q.generated
			budget -= q.PromptTokens + q.generated
		}
		if len(n.joining) == 0 {
			n.decode()
		}
	} else {
		n.decode()
		budget -= len(n.decodes)
		for budget > 0 {
			q := n.partial
			if q == nil {
				var ok bool
				if q, ok = n.admit(); !ok {
					break
				}
				n.take(q)
			}
			chunk := min(budget, q.PromptTokens+q.generated-q.cached)
			q.cached += chunk
			tokens += chunk
			budget -= chunk
			n.partial = q
			if q.cached == q.PromptTokens+q.generated {
				n.joining, n.partial = append(n.joining, q), nil
			}
		}
	}
	context := 0
	for _, q := range n.decodes {
		context += q.PromptTokens + q.generated
	}
	tokens += len(n.decodes)
	sequences := len(n.decodes) + len(n.joining)
	if n.partial != nil {
		sequences++
	}
	ms, _ = n.profile.Step(tokens, sequences, context, 0)
	ms += float64(len(n.joining)) * n.profile.Prompt
	return ms, sequences > 0
}

func (n *naive) finish(at time.Duration) (out []Event) {
	for _, q := range n.decodes {
		q.generated++
		if q.generated == q.OutputTokens {
			out = append(out, Event{ID: q.ID, At: at, Kind: Finished})
			n.running = slices.DeleteFunc(n.running, func(r *naiveSequence) bool { return r == q })
		}
	}
	for _, q := range n.joining {
		q.generated++
		if q.generated == 1 {
			out = append(out, Event{ID: q.ID, At: at, Kind: FirstToken})
		}
		if q.generated == q.OutputTokens {
			out = append(out, Event{ID: q.ID, At: at, Kind: Finished})
			continue
		}
		n.running = append(n.running, q)
	}
	n.joining = nil
	return out
}

// TestAgainstNaiveModel plays random sequences through the engine and the
// naive one, under memory pressure, and wants the same events at the same times.
func TestAgainstNaiveModel(t *testing.T) {
	p := &profile.Profile{LaunchFloor: 1, Weights: 5, Growth: 0.003, Token: 0.05, Context: 0.001, Overhead: 1.5, Sequence: 0.2, Prompt: 0.7}
	for _, scheduler := range []string{PrefillFirst, ChunkedPrefill} {
		t.Run(scheduler, func(t *testing.T) {
			for seed := range uint64(40) {
				againstNaive(t, scheduler, p, seed)
			}
		})
	}
}

func againstNaive(t *testing.T, scheduler string, p *profile.Profile, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	c := Config{Scheduler: scheduler, MaxBatchTokens: 64 + rng.IntN(200), MaxSequences: 4 + rng.IntN(30), BlockTokens: 1 + rng.IntN(16), MaxPrompts: rng.IntN(3)}
	kv := 400 + rng.IntN(1200)
	e, err := New(c, p, kv)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHost(e)
	n := &naive{config: c, profile: p, blocks: kv / c.BlockTokens}
	var nextArrival, naiveEnd time.Duration
	naiveBusy := false
	for id := uint64(0); id < 150; {
		if at, ok := h.Next(); ok && at <= nextArrival {
			if !naiveBusy || naiveEnd != at {
				t.Fatalf("seed %d: engine ends a step at %v, naive model at %v (busy %t)", seed, at, naiveEnd, naiveBusy)
			}
			want := n.finish(at)
			got := h.Step(nil)
			sortEvents(want)
			sortEvents(got)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d at %v: events %v, naive model %v", seed, at, got, want)
			}
			if err := e.CheckInvariants(); err != nil {
				t.Fatalf("seed %d at %v: %v", seed, at, err)
			}
			var ms float64
			ms, naiveBusy = n.begin()
			naiveEnd = at + profile.Duration(ms)
			continue
		}
		s := Sequence{ID: id, PromptTokens: 1 + rng.IntN(100), OutputTokens: 1 + rng.IntN(80)}
		id++
		if !e.Fits(s) {
			continue
		}
		n.waiting = append(n.waiting, &naiveSequence{Sequence: s})
		h.Submit(0, s, nextArrival)
		if !naiveBusy {
			var ms float64
			ms, naiveBusy = n.begin()
			naiveEnd = nextArrival + profile.Duration(ms)
		}
		nextArrival += time.Duration(rng.ExpFloat64() * float64(60*time.Millisecond))
	}
	if e.Preemptions() == 0 && seed == 0 {
		t.Error("seed 0 never preempts: the test lost its pressure")
	}
}

func sortEvents(list []Event) {
	slices.SortFunc(list, func(a, b Event) int {
		if a.ID != b.ID {
			return int(a.ID) - int(b.ID)
		}
		return int(a.Kind) - int(b.Kind)
	})
}
