package engineserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gearshift/router/fleet"
	"gearshift/serving/backend"
	"gearshift/serving/engines/agents"
	"gearshift/serving/engineserver/repository"
)

// simulated has the engines of a host as models that can be loaded. All of them run from the
// start, since an engine without requests costs its host nothing: a load is the time that
// it takes by the table's models. In a table without models it takes no time, and engines no
// memory.
type simulated struct {
	table     *fleet.Table
	models    []fleet.Model // by replica
	batches   []bool        // by replica: it runs batches to their end, as classifiers do
	engines   *backend.Simulated
	observers []atomic.Pointer[func(backend.Span)] // by replica
	running   atomic.Bool
	pattern   string // of the names of other versions than the first; empty: there are none

	mu       sync.Mutex // protects what follows
	versions []repository.Model
	used     []bool // by replica: a model runs on it
}

// newSimulated starts the engines. Of two replicas of a variant each runs any version of its model.
func newSimulated(c backend.SimulatedConfig, pattern string) (*simulated, error) {
	n := len(c.Table.Replicas)
	s := &simulated{table: c.Table, models: make([]fleet.Model, n), observers: make([]atomic.Pointer[func(backend.Span)], n), pattern: pattern, used: make([]bool, n)}
	for i := range s.models {
		name := c.Table.Variants[c.Table.Replicas[i].Variant].Name
		if pattern == "" && slices.ContainsFunc(s.models, func(m fleet.Model) bool { return m.Name == name }) {
			name, _, _ = strings.Cut(c.Table.Replicas[i].Name, "@") // its own, such as that of an engine at another share of memory
		}
		if pattern == "" && slices.ContainsFunc(s.models, func(m fleet.Model) bool { return m.Name == name }) {
			return nil, fmt.Errorf("cannot make engine server: two replicas called %q; one server has each model once", name)
		}
		s.models[i] = modelOf(c.Table, i)
		s.models[i].Name = name // which is what requests name
	}
	for _, e := range c.Engines {
		s.batches = append(s.batches, e.Batches())
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

// modelOf is what the table says of the replica's model.
func modelOf(t *fleet.Table, replica int) (m fleet.Model) {
	if i := t.ModelOf(t.Replicas[replica].Variant); i >= 0 {
		m = t.Models[i]
		m.Memory = t.MemoryOf(replica)
	}
	return m
}

// initial names the models that the table has up at the start, and those that it has asleep.
func (s *simulated) initial() (load, warm []string) {
	for i, m := range s.models {
		switch s.table.Replicas[i].Initial {
		case fleet.Up:
			load = append(load, m.Name)
		case fleet.Warm:
			warm = append(warm, m.Name)
		}
	}
	return load, warm
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
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.versions)
	for _, m := range s.models {
		if !slices.ContainsFunc(list, func(x repository.Model) bool { return x.Name == m.Name }) {
			list = append(list, repository.Model{Name: m.Name, Version: m.Version, Memory: m.Memory, Mark: m.Version})
		}
	}
	return list, nil
}

// version returns the version of the replica's model that has the name.
func (s *simulated) version(replica int, name string) (version string, ok bool) {
	m := &s.models[replica]
	if m.Name == name {
		return m.Version, true
	}
	before, after, _ := strings.Cut(strings.ReplaceAll(s.pattern, "{model}", m.Name), "{version}")
	rest, ok := strings.CutPrefix(name, before)
	if !ok || s.pattern == "" {
		return "", false
	}
	version, ok = strings.CutSuffix(rest, after)
	return version, ok && version != ""
}

// fetch has a version be there that is asked for.
func (s *simulated) fetch(_ context.Context, name string) error {
	for i := range s.models {
		if version, ok := s.version(i, name); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.versions = append(s.versions, repository.Model{Name: name, Version: version, Memory: s.models[i].Memory, Mark: version})
			return nil
		}
	}
	return &repository.UnknownError{Name: name}
}

// take returns a replica on which the model is to run.
func (s *simulated) take(name string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.models {
		if _, ok := s.version(i, name); ok && !s.used[i] {
			s.used[i] = true
			return i, nil
		}
	}
	return 0, fmt.Errorf("no simulated engine is free for %q: unload another version of it", name)
}

func (s *simulated) release(replica int) {
	s.mu.Lock()
	s.used[replica] = false
	s.mu.Unlock()
}

// Load implements [repository.Source].
func (s *simulated) Load(ctx context.Context, m repository.Model, observe func(backend.Span)) (repository.Engine, error) {
	i, err := s.take(m.Name)
	if err != nil {
		return nil, err
	}
	if s.running.Load() {
		if err := agents.Pause(ctx, s.models[i].Load); err != nil {
			s.release(i)
			return nil, err
		}
	}
	s.observers[i].Store(&observe)
	if s.running.Load() {
		s.engines.Delay(i, s.models[i].FirstAnswer)
	}
	e := &simulatedEngine{RoundTripper: s.engines.Replica(i), source: s, replica: i}
	if s.batches[i] {
		return &simulatedClassifier{e}, nil
	}
	return e, nil
}

// simulatedEngine is a simulated engine as a model that is loaded.
type simulatedEngine struct {
	http.RoundTripper
	source  *simulated
	replica int
	level   repository.Level
}

// simulatedClassifier is one that takes tensors, by any names.
type simulatedClassifier struct{ *simulatedEngine }

// Signature implements [backend.Described].
func (simulatedClassifier) Signature() backend.Signature { return backend.SimulatedSignature() }

// Context implements [repository.Engine].
func (e *simulatedEngine) Context() int { return e.source.table.Replicas[e.replica].KVTokens }

// Load implements [repository.Engine].
func (e *simulatedEngine) Load() backend.Load { return e.source.engines.Load(e.replica) }

// Sleep implements [repository.Engine]. What sleeps at the start of the server slept before.
func (e *simulatedEngine) Sleep(ctx context.Context, l repository.Level) error {
	e.level = l
	if !e.source.running.Load() {
		return nil
	}
	return agents.Pause(ctx, e.source.models[e.replica].SleepTime())
}

// Wake implements [repository.Engine]. The cache costs no time.
func (e *simulatedEngine) Wake(ctx context.Context, p repository.Part) error {
	m := &e.source.models[e.replica]
	if p != repository.Weights {
		e.source.engines.Delay(e.replica, m.FirstAnswer)
		return nil
	}
	if e.level == repository.Offload {
		return agents.Pause(ctx, m.WakeTime())
	}
	return agents.Pause(ctx, m.Load)
}

// Close implements [repository.Engine]. The engine itself stays, for the next load.
func (e *simulatedEngine) Close() { e.source.release(e.replica) }
