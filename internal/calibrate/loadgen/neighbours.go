package loadgen

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// load keeps neighbours busy: a closed loop of some requests on each.
type load struct {
	run     *run
	windows []window

	mu      sync.Mutex // protects all below
	answers map[int][]*Answer
	failed  error
}

// window is when a sample was taken.
type window struct {
	sample   int // its index
	from, to time.Duration
}

// beside calls f while the neighbours named are under load. All of them decode
// before it begins, and are idle when it has ended.
func (r *run) beside(ctx context.Context, engines []int, f func(*load) error) error {
	l := &load{run: r, answers: map[int][]*Answer{}}
	if len(engines) == 0 {
		return f(l)
	}
	loading, cancel := context.WithCancel(ctx)
	defer cancel()
	var clients, begun sync.WaitGroup
	for _, engine := range engines {
		for range loadBatch {
			begun.Add(1)
			clients.Go(func() {
				once := sync.OnceFunc(begun.Done)
				defer once() // whatever happens
				l.loop(loading, engine, once)
			})
		}
	}
	begun.Wait()
	err := l.fault()
	if err == nil {
		err = f(l)
	}
	cancel()
	clients.Wait()
	if fault := l.fault(); err == nil {
		err = fault
	}
	if err != nil && !errors.Is(err, errTime) {
		return err
	}
	l.fill()
	// A request that is answered shows that what was cancelled is out of the way.
	for _, engine := range engines {
		if _, fault := r.targets[engine].ask(ctx, r.client, r.since, r.prompt(1), 1, nil); fault != nil {
			return fault
		}
	}
	return err
}

// loop asks the engine for one answer after the other, until the context ends.
func (l *load) loop(ctx context.Context, engine int, first func()) {
	r := l.run
	for ctx.Err() == nil {
		text := r.prompt(r.words[engine].count(r.Prompts[0]))
		h, err := r.targets[engine].ask(ctx, r.client, r.since, text, loadOutput, first)
		if len(h.Pieces) > 0 {
			l.mu.Lock()
			l.answers[engine] = append(l.answers[engine], &h)
			l.mu.Unlock()
		}
		if err != nil && ctx.Err() == nil {
			l.mu.Lock()
			l.failed = err
			l.mu.Unlock()
			return
		}
	}
}

func (l *load) fault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// fill says of the samples taken meanwhile what the neighbours did, now that all
// of their answers are known.
func (l *load) fill() {
	for _, w := range l.windows {
		for _, engine := range slices.Sorted(maps.Keys(l.answers)) {
			r := l.run
			r.out.Samples[w.sample].Beside = append(r.out.Samples[w.sample].Beside, activity(engine, l.answers[engine], r.Prompts[0], w.from, w.to))
		}
	}
}

// activity is what came of an engine's answers from one time to another. Prompts of
// answers that were cut short are taken to be as long as they were meant to be.
func activity(engine int, answers []*Answer, prompt int, from, to time.Duration) Activity {
	a := Activity{Engine: engine}
	var tokens, running, context float64
	for _, h := range answers {
		long, each := prompt, 1.0
		if h.Output > 0 {
			long, each = h.Prompt, float64(h.Output)/float64(len(h.Pieces))
		}
		within := overlap(h.Sent, h.Pieces[0], from, to)
		a.Prefills += within
		a.PrefillTokens += within * float64(long)
		running += max(0, min(h.Pieces[len(h.Pieces)-1], to)-max(h.Pieces[0], from)).Seconds()
		for i, at := range h.Pieces[1:] {
			// A step that begins before the time or ends after it counts in part.
			within := each * overlap(h.Pieces[i], at, from, to)
			tokens += within
			context += within * (float64(long) + each*float64(i+1))
		}
	}
	window := (to - from).Seconds()
	if a.Prefills > 0 {
		a.PrefillTokens /= a.Prefills
		a.Prefills /= window
	}
	if tokens > 0 && running > 0 {
		a.Sequences = max(1, running/window)
		a.Steps = tokens / a.Sequences / window
		a.Context = context / tokens * a.Sequences
	}
	return a
}

// overlap is the share of a stretch of time that lies within another.
func overlap(begin, end, from, to time.Duration) float64 {
	if begin == end {
		if from < end && end <= to {
			return 1
		}
		return 0
	}
	return max(0, float64(min(end, to)-max(begin, from))) / float64(end-begin)
}
