package local

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"gearshift/serving/backend"
	"gearshift/serving/repository"
)

// errAsleep is what a model without an engine answers with.
var errAsleep = errors.New("the model is asleep")

// loaded is a model of a repository. It is a [repository.Engine].
//
// At sleep the session is closed, and with it the cache is gone. At level 1 the model file's
// bytes stay in memory, so that waking reads no disk. At level 2 waking is a load.
type loaded struct {
	config  Config
	context int

	mu     sync.RWMutex // protects all below
	engine Engine       // nil while asleep
	opened opened       // the weights are back, and the cache is not
	file   []byte       // what level 1 keeps, or nil
	free   func()       // gives file back
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
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	aside(func() {
		if p == repository.Weights {
			err = l.open()
		} else {
			err = l.start()
		}
	}, l.config.Threads)
	return err
}

// open loads the weights. The caller holds l.mu.
func (l *loaded) open() (err error) {
	c := l.config
	c.File = l.file
	if l.opened, err = open(c); err == nil {
		l.release()
	}
	return err
}

// start makes the engine. The caller holds l.mu.
func (l *loaded) start() (err error) {
	if l.opened == nil {
		return errAsleep
	}
	l.engine, err = l.opened.start()
	l.opened = nil
	if err == nil {
		l.context = l.engine.Context()
	}
	return err
}

// release gives back what level 1 has kept. The caller holds l.mu.
func (l *loaded) release() {
	if l.file != nil {
		l.free()
	}
	l.file, l.free = nil, nil
}

// Sleep implements [repository.Engine].
func (l *loaded) Sleep(level repository.Level) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	awake := l.engine != nil || l.opened != nil
	l.closeAll()
	switch {
	case level == repository.Discard:
		l.release()
	case awake && l.file == nil:
		l.file, l.free, err = readModel(l.config.Path)
	}
	return err
}

// closeAll closes what computes. The caller holds l.mu.
func (l *loaded) closeAll() {
	if l.engine != nil {
		l.engine.Close()
	}
	if l.opened != nil {
		l.opened.close()
	}
	l.engine, l.opened = nil, nil
}

// Close implements [repository.Engine].
func (l *loaded) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeAll()
	l.release()
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
