package reports

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Sweep plays settings and keeps their runs, so that each is played once however many sections
// need it. Settings whose runs have the same seeds are compared run by run.
type Sweep[S comparable, R any] struct {
	*Run
	// Open prepares a setting. It returns how many runs the setting has, and what plays one of
	// them, which several processors do at a time.
	Open func(s S) (runs int, play func(ctx context.Context, i int) (R, error), err error)

	kept map[S][]R
}

// Play returns the runs of each setting. It stops at the first error.
func (w *Sweep[S, R]) Play(ctx context.Context, settings ...S) ([][]R, error) {
	if w.kept == nil {
		w.kept = map[S][]R{}
	}
	var fresh []S
	for _, s := range settings {
		if _, kept := w.kept[s]; !kept {
			w.kept[s] = nil // which a second mention finds
			fresh = append(fresh, s)
		}
	}
	if err := w.play(ctx, fresh); err != nil {
		for _, s := range fresh {
			delete(w.kept, s)
		}
		return nil, err
	}
	all := make([][]R, len(settings))
	for i, s := range settings {
		all[i] = w.kept[s]
	}
	return all, nil
}

// play plays settings on all processors. A setting is opened when its first run is due.
func (w *Sweep[S, R]) play(ctx context.Context, settings []S) error {
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	count := w.countSettings(len(settings))
	var mu sync.Mutex // protects done
	done := 0
	for _, s := range settings {
		if each.Err() != nil {
			break
		}
		n, play, err := w.Open(s)
		if err != nil {
			group.Go(func() error { return err })
			break
		}
		results, left := make([]R, n), n
		w.kept[s] = results
		for i := range n {
			group.Go(func() (err error) {
				if err := each.Err(); err != nil {
					return err
				}
				if results[i], err = play(each, i); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if left--; left == 0 {
					done++
					count(done, len(settings))
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// countSettings counts the settings of a sweep by the section's name, and by the sweep's number from
// the section's second on. A setting alone is not counted.
func (r *Run) countSettings(n int) func(done, total int) {
	if n < 2 {
		return func(int, int) {}
	}
	what := r.part
	if r.sweeps++; r.sweeps > 1 {
		what = fmt.Sprintf("%s, sweep %d", what, r.sweeps)
	}
	return r.Counting(what + ": settings played")
}

// Grid plays n settings of m runs each, which are kept nowhere.
func Grid[R any](ctx context.Context, r *Run, n, m int, play func(ctx context.Context, i, k int) (R, error)) ([][]R, error) {
	w := Sweep[int, R]{Run: r, Open: func(i int) (int, func(context.Context, int) (R, error), error) {
		return m, func(ctx context.Context, k int) (R, error) { return play(ctx, i, k) }, nil
	}}
	settings := make([]int, n)
	for i := range settings {
		settings[i] = i
	}
	return w.Play(ctx, settings...)
}
