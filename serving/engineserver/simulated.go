package engineserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/backend"
	"gearshift/serving/repository"
)

// simulated has the engines of a host as models that can be loaded. All of them run from the
// start, since an engine without requests costs its host nothing: a load is the time that
// it takes.
type simulated struct {
	table     *fleet.Table
	models    []SimulatedModel
	engines   *backend.Simulated
	observers []atomic.Pointer[func(backend.Span)] // by replica
	running   atomic.Bool
}

// SimulatedModel is what a simulated engine is like besides its profile.
type SimulatedModel struct {
	Version string        // empty is "1"
	Memory  int64         // bytes
	Load    time.Duration // from the disk to the first answer
}

// wakeShare is the part of its load time that a model takes to wake from level 1: what
// vLLM reports is 18 to 200 times as fast as a load.
const wakeShare = 20

// newSimulated starts the engines.
func newSimulated(c backend.SimulatedConfig, models []SimulatedModel) (*simulated, error) {
	s := &simulated{table: c.Table, models: models, observers: make([]atomic.Pointer[func(backend.Span)], len(c.Table.Replicas))}
	names := map[string]bool{}
	for i := range c.Table.Replicas {
		if name := s.name(i); names[name] {
			return nil, fmt.Errorf("cannot make engine server: two replicas of %q; one server has each model once", name)
		}
		names[s.name(i)] = true
	}
	if models == nil {
		s.models = make([]SimulatedModel, len(c.Table.Replicas))
	} else if len(models) != len(c.Table.Replicas) {
		return nil, fmt.Errorf("cannot make engine server: %d models for %d replicas", len(models), len(c.Table.Replicas))
	}
	if c.Observe != nil {
		return nil, errors.New("cannot make engine server: Engines.Observe is the server's own")
	}
	c.Observe = func(span backend.Span) {
		if observe := s.observers[span.Replica].Load(); observe != nil {
			(*observe)(span)
		}
	}
	var err error
	s.engines, err = backend.NewSimulated(c)
	return s, err
}

func (s *simulated) name(replica int) string {
	return s.table.Variants[s.table.Replicas[replica].Variant].Name
}

// begin starts the clock: what is loaded before it was there already.
func (s *simulated) begin() { s.running.Store(true) }

// Close ends the engines.
func (s *simulated) Close() error {
	s.engines.Close()
	return nil
}

// Models implements [repository.Source].
func (s *simulated) Models() ([]repository.Model, error) {
	list := make([]repository.Model, len(s.models))
	for i, m := range s.models {
		list[i] = repository.Model{Name: s.name(i), Version: m.Version, Memory: m.Memory, Mark: m.Version}
	}
	return list, nil
}

// Load implements [repository.Source].
func (s *simulated) Load(ctx context.Context, m repository.Model, observe func(backend.Span)) (repository.Engine, error) {
	for i := range s.models {
		if s.name(i) != m.Name {
			continue
		}
		if s.running.Load() {
			if err := pause(ctx, s.models[i].Load); err != nil {
				return nil, err
			}
		}
		s.observers[i].Store(&observe)
		return &simulatedEngine{RoundTripper: s.engines.Replica(i), source: s, replica: i}, nil
	}
	return nil, fmt.Errorf("there is no simulated engine of the model %q", m.Name)
}

// pause waits for so long, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// simulatedEngine is a simulated engine as a model that is loaded.
type simulatedEngine struct {
	http.RoundTripper
	source  *simulated
	replica int
	level   repository.Level
}

// Context implements [repository.Engine].
func (e *simulatedEngine) Context() int { return e.source.table.Replicas[e.replica].KVTokens }

// Load implements [repository.Engine].
func (e *simulatedEngine) Load() backend.Load { return e.source.engines.Load(e.replica) }

// Sleep implements [repository.Engine].
func (e *simulatedEngine) Sleep(l repository.Level) error {
	e.level = l
	return nil
}

// Wake implements [repository.Engine]. The cache costs no time.
func (e *simulatedEngine) Wake(ctx context.Context, p repository.Part) error {
	load := e.source.models[e.replica].Load
	switch {
	case p != repository.Weights:
		return nil
	case e.level == repository.Offload:
		load /= wakeShare
	}
	return pause(ctx, load)
}

// Close implements [repository.Engine]. The engine itself stays, for the next load.
func (e *simulatedEngine) Close() {}
