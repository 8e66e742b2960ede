package onnxruntime

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"gearshift/serving/backend"
	"gearshift/serving/engineserver/repository"
)

// errAsleep is what a model without an engine answers with.
var errAsleep = errors.New("the model is asleep")

// loaded is a model of a repository. It is a [repository.Engine].
//
// A sleep of level 1 keeps the session with its weights, ready to compute, and frees the
// cache. One of level 2 closes the session, and waking is a load.
type loaded struct {
	config  Config
	context int

	mu     sync.RWMutex // protects all below
	opened opened       // nil if there are no weights
	engine Engine       // nil while asleep
}

// wake brings both parts back.
func (l *loaded) wake(ctx context.Context) error {
	if err := l.Wake(ctx, repository.Weights); err != nil {
		return err
	}
	return l.Wake(ctx, repository.Cache)
}

// Wake implements [repository.Engine].
func (l *loaded) Wake(ctx context.Context, p repository.Part) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if l.opened == nil {
		aside(func() { l.opened, err = open(l.config) }, l.config.Threads)
	}
	if err == nil && p == repository.Cache {
		aside(func() { err = l.start() }, l.config.Threads)
	}
	return err
}

// start makes the engine. The caller holds l.mu.
func (l *loaded) start() (err error) {
	l.opened.keep(false)
	if l.engine, err = l.opened.start(); err != nil {
		l.opened, l.engine = nil, nil
		return err
	}
	l.context = l.engine.Context()
	return nil
}

// Sleep implements [repository.Engine].
func (l *loaded) Sleep(_ context.Context, level repository.Level) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if level == repository.Discard {
		l.closeAll()
	} else if l.engine != nil {
		l.opened.keep(true)
		l.engine.Close()
		l.engine = nil
	}
	return nil
}

// closeAll closes what there is. The caller holds l.mu.
func (l *loaded) closeAll() {
	switch {
	case l.engine != nil: // which closes what was opened
		l.engine.Close()
	case l.opened != nil:
		l.opened.close()
	}
	l.engine, l.opened = nil, nil
}

// Close implements [repository.Engine].
func (l *loaded) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeAll()
}

// RoundTrip implements [http.RoundTripper].
func (l *loaded) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.RLock()
	engine := l.engine
	l.mu.RUnlock()
	if engine == nil {
		return nil, errAsleep
	}
	return engine.RoundTrip(r)
}

// Load implements [repository.Engine].
func (l *loaded) Load() backend.Load {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.engine == nil {
		return backend.Load{}
	}
	return l.engine.Load()
}

// Signature implements [backend.Described].
func (l *loaded) Signature() backend.Signature {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if d, ok := l.engine.(backend.Described); ok {
		return d.Signature()
	}
	return backend.Signature{Platform: "onnx_onnxv1", Inputs: []backend.TensorType{}, Outputs: []backend.TensorType{}}
}

// Context implements [repository.Engine].
func (l *loaded) Context() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.context
}
