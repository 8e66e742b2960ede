package repository

import "context"

// instance is an engine with the requests that it answers.
type instance struct {
	engine   Engine
	context  int // tokens
	inFlight int
	// idle, if not nil, is closed when nothing is in flight any more.
	idle chan struct{}
	// aborted ends when requests in flight are to be ended.
	aborted context.Context
	abort   context.CancelCauseFunc
}

func newInstance(e Engine) *instance {
	i := &instance{engine: e, context: e.Context()}
	i.reset()
	return i
}

// reset makes the instance one whose requests may run.
func (i *instance) reset() {
	i.aborted, i.abort = context.WithCancelCause(context.Background())
}

// Lease is the right to use a model's engine for one request. The engine is neither
// unloaded nor put to sleep before the lease's end.
type Lease struct {
	Engine     Engine
	repository *Repository
	instance   *instance
}

// Acquire takes a lease on the model, which must be ready.
func (r *Repository) Acquire(name string) (*Lease, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(name)
	switch {
	case e == nil || r.closed:
		return nil, r.unknown(name)
	case e.state == Asleep:
		return nil, &AsleepError{name, e.level}
	case e.state != Ready:
		return nil, &NotLoadedError{name, e.state, r.names(Ready)}
	}
	e.instance.inFlight++
	return &Lease{e.instance.engine, r, e.instance}, nil
}

// Bind is a context for the request: it ends with the parent, or when the model's
// requests are to be ended. The caller calls stop when the request has ended.
func (l *Lease) Bind(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	unbind := context.AfterFunc(l.instance.aborted, func() { cancel(context.Cause(l.instance.aborted)) })
	return ctx, func() {
		unbind()
		cancel(nil)
	}
}

// End gives the lease back. It must be called once.
func (l *Lease) End() {
	l.repository.mu.Lock()
	defer l.repository.mu.Unlock()
	l.instance.inFlight--
	if l.instance.inFlight == 0 && l.instance.idle != nil {
		close(l.instance.idle)
		l.instance.idle = nil
	}
}

// drain waits until nothing is in flight on the instance, which takes no more requests,
// or until the repository is closed.
func (r *Repository) drain(i *instance) {
	r.mu.Lock()
	if i.inFlight == 0 {
		r.mu.Unlock()
		return
	}
	if i.idle == nil {
		i.idle = make(chan struct{})
	}
	idle := i.idle
	r.mu.Unlock()
	select {
	case <-idle:
	case <-r.ended.Done():
	}
}
