package repository

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gearshift/serving/backend"
)

// operation is one load, unload, sleep or wake in progress. It goes on when the client
// that asked for it has gone.
type operation struct {
	name   string
	done   chan struct{}
	err    error // set before done is closed
	cancel context.CancelCauseFunc
}

// loads says that the operation brings a model up: an unload cancels it.
func (o *operation) loads() bool { return o.name == "load" || strings.HasPrefix(o.name, "wake") }

// wait is how the operation ended, or why it is no longer waited for.
func (o *operation) wait(ctx context.Context) error {
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// work is what an operation does.
type work func(ctx context.Context) error

// do begins an operation on the model and waits for its end. Begin is called under r.mu
// and says what to do; nil is nothing. Operations on one model follow one another: a
// second one of the same name waits for the first and ends as it does, others begin after
// it. An unload cancels the load in progress.
func (r *Repository) do(ctx context.Context, model, name string, begin func(e *entry) (work, error)) error {
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return ErrClosed
		}
		e := r.find(model)
		if e == nil {
			defer r.mu.Unlock()
			return r.unknown(model)
		}
		running := e.operation
		if running == nil {
			run, err := begin(e)
			if err != nil || run == nil {
				r.mu.Unlock()
				return err
			}
			running = r.start(e, name, run)
			r.mu.Unlock()
			return running.wait(ctx)
		}
		if name == "unload" && running.loads() {
			running.cancel(ErrUnloaded)
		}
		r.mu.Unlock()
		err := running.wait(ctx)
		if running.name == name || ctx.Err() != nil {
			return err
		}
	}
}

// start runs the work. The caller holds r.mu.
func (r *Repository) start(e *entry, name string, run work) *operation {
	ctx, cancel := context.WithCancelCause(r.ended)
	o := &operation{name: name, done: make(chan struct{}), cancel: cancel}
	e.operation = o
	r.operations.Go(func() {
		defer cancel(nil)
		o.err = run(ctx)
		r.mu.Lock()
		e.operation = nil
		r.mu.Unlock()
		close(o.done)
	})
	return o
}

// Load loads the model, or wakes it if it is asleep, or replaces it if its content has
// changed: the new one answers as soon as it is loaded, and the old one, which holds its
// memory until then, ends with its last request. A model that is loaded stays.
func (r *Repository) Load(ctx context.Context, name string) error {
	models, err := r.refresh()
	if err != nil {
		return err
	}
	return r.do(ctx, name, "load", func(e *entry) (work, error) {
		m := e.model
		for _, found := range models {
			if found.Name == name {
				m = found
			}
		}
		return r.beginLoad(e, m)
	})
}

// beginLoad decides what a load of the model has to do. The caller holds r.mu.
func (r *Repository) beginLoad(e *entry, m Model) (work, error) {
	before := e.held
	switch {
	case e.state == Ready && m.Mark == e.model.Mark:
		return nil, nil
	case e.state == Asleep && m.Mark == e.model.Mark:
		return r.beginWake(e, All)
	case e.state == Asleep:
		sleeper := e.instance
		if err := r.reserve(e, m.Memory); err != nil {
			return nil, err
		}
		e.instance, e.state, before = nil, Loading, 0
		return func(ctx context.Context) error {
			sleeper.engine.Close()
			return r.load(ctx, e, m, before)
		}, nil
	}
	if err := r.reserve(e, before+m.Memory); err != nil {
		return nil, err
	}
	if e.state != Ready {
		e.state, e.reason = Loading, "loading"
	}
	return func(ctx context.Context) error { return r.load(ctx, e, m, before) }, nil
}

// load makes an engine of the model. Before is what the entry holds if that fails.
func (r *Repository) load(ctx context.Context, e *entry, m Model, before int64) error {
	var engine Engine
	err := r.takeSlot(ctx)
	start := time.Now()
	if err == nil {
		slow := time.AfterFunc(time.Second, func() { r.log.Info("loading", "model", m.Name, "memory", Size(m.Memory)) })
		engine, err = r.config.Source.Load(ctx, m, r.observer(m.Name))
		slow.Stop()
		<-r.slots
	}
	if err == nil && ctx.Err() != nil { // the source did not heed it
		engine.Close()
		err = context.Cause(ctx)
	}
	took := time.Since(start)
	r.mu.Lock()
	if err != nil {
		e.fail(err, before)
		r.mu.Unlock()
		return err
	}
	old := e.instance
	e.instance, e.model, e.state, e.reason = newInstance(engine), m, Ready, ""
	e.loads, e.loadTime = e.loads+1, took
	r.mu.Unlock()
	r.log.Info("loaded", "model", m.Name, "memory", Size(m.Memory), "took", took)
	if old != nil {
		r.drain(old)
		old.engine.Close()
	}
	r.mu.Lock()
	e.held = m.Memory
	r.mu.Unlock()
	return nil
}

// fail enters that a load has failed. What was loaded before stays. The caller holds r.mu.
func (e *entry) fail(err error, before int64) {
	e.held = before
	switch {
	case e.state == Ready:
		e.failures++
		e.reason = "the last reload failed: " + err.Error()
	case errors.Is(err, ErrUnloaded), errors.Is(err, ErrClosed):
		e.state, e.reason = Unloaded, err.Error()
	default:
		e.failures++
		e.state, e.reason = Failed, err.Error()
	}
}

// takeSlot waits until this load may begin.
func (r *Repository) takeSlot(ctx context.Context) error {
	select {
	case r.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// observer reports the model's answers to the repository's user.
func (r *Repository) observer(name string) func(backend.Span) {
	if r.config.Observe == nil {
		return func(backend.Span) {}
	}
	return func(s backend.Span) { r.config.Observe(name, s) }
}

// Unload takes no more requests for the model, waits for those in flight, and frees it. A
// load of it that is in progress ends with [ErrUnloaded].
func (r *Repository) Unload(ctx context.Context, name string) error {
	return r.do(ctx, name, "unload", func(e *entry) (work, error) {
		if e.instance == nil {
			if e.state == Failed {
				e.state, e.reason = Unloaded, "unloaded"
			}
			return nil, nil
		}
		e.state, e.reason = Unloading, "unloading"
		return func(context.Context) error {
			r.drain(e.instance)
			e.instance.engine.Close()
			r.mu.Lock()
			e.instance, e.state, e.reason, e.held = nil, Unloaded, "unloaded", 0
			r.mu.Unlock()
			r.log.Info("unloaded", "model", name)
			return nil
		}, nil
	})
}

// Sleep takes no more requests for the model, waits for those in flight, or ends them
// if abort is set, and frees what the level does not keep. A model that is asleep stays so,
// at the higher of both levels.
func (r *Repository) Sleep(ctx context.Context, name string, l Level, abort bool) error {
	return r.do(ctx, name, fmt.Sprintf("sleep %d", l), func(e *entry) (work, error) {
		switch {
		case e.state == Asleep && e.level >= l && e.asleep == All:
			return nil, nil
		case e.state != Ready && e.state != Asleep:
			return nil, &NotLoadedError{name, e.state, r.names(Ready)}
		}
		e.state, e.level, e.asleep = Asleep, max(l, e.level), All
		e.reason = fmt.Sprintf("asleep at level %d", e.level)
		return func(ctx context.Context) error { return r.sleep(ctx, e, abort) }, nil
	})
}

// sleep frees what the entry's level does not keep.
func (r *Repository) sleep(ctx context.Context, e *entry, abort bool) error {
	if abort {
		e.instance.abort(ErrAborted)
	}
	r.drain(e.instance)
	err := e.instance.engine.Sleep(ctx, e.level)
	if err != nil {
		e.instance.engine.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		e.instance, e.level, e.asleep = nil, 0, 0
		e.state = Loading // as after a failed load, nothing is left
		e.fail(err, 0)
		return err
	}
	if e.held = 0; e.level == Offload {
		e.held = e.model.Kept
	}
	r.log.Info("asleep", "model", e.model.Name, "level", e.level, "keeps", Size(e.held))
	return nil
}

// Wake brings the parts of a sleeping model back. The model answers when it has all of
// them. A model that is not asleep stays as it is.
func (r *Repository) Wake(ctx context.Context, name string, p Part) error {
	return r.do(ctx, name, fmt.Sprintf("wake %d", p), func(e *entry) (work, error) {
		switch e.state {
		case Ready:
			return nil, nil
		case Asleep:
			return r.beginWake(e, p)
		}
		return nil, &NotLoadedError{name, e.state, r.names(Ready)}
	})
}

// beginWake decides what waking the parts has to do. The caller holds r.mu.
func (r *Repository) beginWake(e *entry, p Part) (work, error) {
	p &= e.asleep
	if p == 0 {
		return nil, nil
	}
	before := e.held
	if p&Weights > 0 {
		if err := r.reserve(e, e.model.Memory); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error { return r.wake(ctx, e, p, before) }, nil
}

// wake brings the parts back: the weights at once, and the cache once they are there. Weights
// that were discarded are loaded, after the loads before them. Before is what the entry holds if it gets no weights.
func (r *Repository) wake(ctx context.Context, e *entry, p Part, before int64) (err error) {
	if e.level == Discard && p&Weights > 0 {
		if err = r.takeSlot(ctx); err == nil {
			defer func() { <-r.slots }()
		}
	}
	start, missing := time.Now(), e.asleep&^(p&Cache)
	if err == nil && p&Weights > 0 {
		if err = e.instance.engine.Wake(ctx, Weights); err == nil {
			missing &^= Weights
		}
	}
	if err == nil && missing == 0 {
		if err = e.instance.engine.Wake(ctx, Cache); err != nil {
			missing = Cache
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.asleep = missing; missing&Weights > 0 {
		e.held = before
	}
	switch {
	case err != nil:
		e.reason = "waking failed: " + err.Error()
	case missing == 0:
		e.instance.reset()
		e.state, e.reason, e.level, e.wakeTime = Ready, "", 0, time.Since(start)
		r.log.Info("awake", "model", e.model.Name, "took", e.wakeTime)
	}
	return err
}
