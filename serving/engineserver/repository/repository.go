// Package repository manages the models of an inference server: which of them are
// loaded, how much memory they take, and which operation is in progress on each. It
// loads models while others answer, drains a model before it is unloaded, and puts
// models to sleep. Where models come from is a [Source]'s business.
package repository

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"gearshift/serving/backend"
)

// Model describes a model that can be loaded.
type Model struct {
	Name string
	// Version is what the model's clients see of its version.
	Version string
	// Memory is what the model takes while it is loaded, in bytes.
	Memory int64
	// Kept is what it takes while it is asleep at [Level] 1, in bytes.
	Kept int64
	// Mark identifies the model's content. A load of a loaded model whose mark has
	// changed replaces it.
	Mark string
}

// Engine computes a loaded model. RoundTrip is not called between Sleep and the Wake of
// both parts.
type Engine interface {
	http.RoundTripper
	// Context is how many tokens prompt and answer may have together.
	Context() int
	// Load is the present load, zero while the engine is asleep.
	Load() backend.Load
	// Sleep frees what the level does not keep. An engine that is asleep at level 1 may
	// be put to sleep at level 2.
	Sleep(ctx context.Context, l Level) error
	// Wake brings the part back. Weights come before the cache.
	Wake(ctx context.Context, p Part) error
	// Close ends all work and frees everything.
	Close()
}

// Source has the models of a repository. Its methods may be called at the same time.
type Source interface {
	// Models lists what can be loaded, in a stable order.
	Models() ([]Model, error)
	// Load makes an engine of the model. It should return soon after the context ends.
	// The engine reports each answer to observe as it ends.
	Load(ctx context.Context, m Model, observe func(backend.Span)) (Engine, error)
}

// Level says how much of a sleeping model stays in memory.
type Level uint8

// The levels are those of vLLM.
const (
	// Offload keeps what makes waking quick.
	Offload Level = 1
	// Discard keeps nothing.
	Discard Level = 2
)

// Part is a set of what a sleeping model has to get back before it answers.
type Part uint8

// The parts are those of vLLM.
const (
	Weights Part = 1 << iota
	Cache
	All = Weights | Cache
)

// State is where a model is in its life.
type State uint8

// The states.
const (
	Unloaded State = iota
	Loading
	Ready
	Asleep
	Unloading
	Failed // the last load failed; Status.Reason says why
)

// String is the state's name.
func (s State) String() string {
	return [...]string{"unloaded", "loading", "ready", "asleep", "unloading", "failed"}[s]
}

// Status is what can be said of a model at one moment.
type Status struct {
	Model
	State  State
	Reason string // for any state but Ready; of Ready, why the last reload failed
	// Level and Sleeping are of a model that is asleep.
	Level    Level
	Sleeping Part
	// Context is how many tokens prompt and answer may have together, zero if nothing is
	// loaded.
	Context int
	// Held is what the model takes of the memory at present, in bytes.
	Held int64
	// LoadTime and WakeTime are how long the last load and the last wake took.
	LoadTime, WakeTime time.Duration
	// Loads and Failures count loads that succeeded and that failed.
	Loads, Failures int
	// InFlight requests are being answered.
	InFlight int
	// Engine is nil unless the model is ready.
	Engine Engine
}

// Config is what a Repository is made of.
type Config struct {
	Source Source
	// Memory bounds what all models take together, in bytes. Zero is no bound.
	Memory int64
	// Loaders is how many models may be loaded at the same time; zero is one.
	Loaders int
	// Observe, if set, is called with each answer as it ends, with its model's name. It
	// must neither wait nor call the repository.
	Observe func(model string, s backend.Span)
	// Log gets nothing if nil.
	Log *slog.Logger
}

// Repository manages models. Close ends it.
type Repository struct {
	config Config
	log    *slog.Logger
	// slots are held by the loads in progress. By default there is one: loads side by side take
	// each other's processor, disk and memory, and more of those from the answers.
	slots      chan struct{}
	operations sync.WaitGroup
	ended      context.Context // ends with Close
	end        context.CancelCauseFunc

	mu      sync.Mutex // protects all below, and the entries
	entries []*entry   // in the source's order; what is loaded and no longer there comes last
	closed  bool
}

// entry is a model and its state.
type entry struct {
	model  Model
	state  State
	reason string
	level  Level
	asleep Part
	held   int64
	// instance is the engine that answers, or sleeps; nil if there is none.
	instance  *instance
	operation *operation // in progress, or nil

	loadTime, wakeTime time.Duration
	loads, failures    int
}

// New lists the source's models. None is loaded.
func New(c Config) (*Repository, error) {
	r := &Repository{config: c, log: c.Log, slots: make(chan struct{}, max(1, c.Loaders))}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.ended, r.end = context.WithCancelCause(context.Background())
	_, err := r.refresh()
	return r, err
}

// refresh asks the source what there is. A model that is loaded, or on its way, keeps the
// description that it was loaded with.
func (r *Repository) refresh() ([]Model, error) {
	models, err := r.config.Source.Models()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	entries := make([]*entry, 0, len(models))
	for _, m := range models {
		e := r.find(m.Name)
		if e == nil {
			e = &entry{reason: "not loaded"}
		}
		if e.idle() {
			e.model = m
		}
		entries = append(entries, e)
	}
	for _, e := range r.entries {
		if !e.idle() && !slices.Contains(entries, e) {
			entries = append(entries, e)
		}
	}
	r.entries = entries
	return models, nil
}

// idle says that nothing is loaded of the model, and nothing done about it.
func (e *entry) idle() bool { return e.instance == nil && e.operation == nil }

// find is the entry of the name, or nil. The caller holds r.mu.
func (r *Repository) find(name string) *entry {
	for _, e := range r.entries {
		if e.model.Name == name {
			return e
		}
	}
	return nil
}

// List is the status of every model. It asks the source again, and says so if that
// fails.
func (r *Repository) List() ([]Status, error) {
	_, err := r.refresh()
	return r.Statuses(), err
}

// Statuses is what List returns, without a look at the source.
func (r *Repository) Statuses() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Status, len(r.entries))
	for i, e := range r.entries {
		list[i] = e.status()
	}
	return list
}

// Status is that of the model of the name.
func (r *Repository) Status(name string) (Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.find(name)
	if e == nil {
		return Status{}, r.unknown(name)
	}
	return e.status(), nil
}

// status is the entry as others see it. The caller holds r.mu.
func (e *entry) status() Status {
	s := Status{
		Model: e.model, State: e.state, Reason: e.reason, Held: e.held,
		LoadTime: e.loadTime, WakeTime: e.wakeTime, Loads: e.loads, Failures: e.failures,
	}
	if e.instance != nil {
		s.InFlight, s.Context = e.instance.inFlight, e.instance.context
	}
	switch e.state {
	case Ready:
		s.Engine = e.instance.engine
	case Asleep:
		s.Level, s.Sleeping = e.level, e.asleep
	}
	return s
}

// Memory is what all models may take together, zero if there is no bound, and what they
// take at present.
func (r *Repository) Memory() (total, held int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config.Memory, r.held()
}

// held is what all models take. The caller holds r.mu.
func (r *Repository) held() (sum int64) {
	for _, e := range r.entries {
		sum += e.held
	}
	return sum
}

// Close ends all work: what is in flight, what is in progress, and the engines.
func (r *Repository) Close() {
	r.mu.Lock()
	r.closed = true
	r.end(ErrClosed)
	r.mu.Unlock()
	r.operations.Wait()
	r.mu.Lock()
	var instances []*instance
	for _, e := range r.entries {
		if e.instance != nil {
			instances = append(instances, e.instance)
		}
		e.instance, e.state, e.reason, e.held = nil, Unloaded, "the server has ended", 0
	}
	r.mu.Unlock()
	for _, i := range instances {
		i.engine.Close()
	}
}
