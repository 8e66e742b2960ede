// Package engineserver is an inference server: the engines of one host, simulated
// ones or others, behind the HTTP interface of vLLM, metrics' names included. Models are
// loaded and unloaded by Triton's repository API, and put to sleep as vLLM does it. To a router it is
// a server like any other, so that serving can be tried, and tested, across real
// connections without a GPU. It misbehaves on demand; see [Faults]. Its [Agent] registers it with a
// router, sends heartbeats, and fetches models that it lacks.
package engineserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"gearshift/serving/backend"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engineserver/repository"
	"gearshift/serving/openai/wire"
)

// Config is what a Server is made of.
type Config struct {
	// Engines run in real time. The table has at most one replica of each
	// variant, whose name is the model's to clients; memory and load times are those of the
	// table's models, if it has any. Observe must be unset.
	Engines backend.SimulatedConfig
	// Versions is how other versions of simulated models than the first are called, with {model} and
	// {version}; then the table may have two replicas of a variant. Empty: there are no others.
	Versions string
	// Shared are models with several inputs, whose variants are models of the server.
	Shared []Shared
	// Source, if set, has other models, and Engines is not used.
	Source repository.Source
	// Memory bounds what loaded models take together, in bytes. Zero is no bound.
	Memory int64
	// Loaders is how many models may be loaded at the same time; zero is one.
	Loaders int
	// Fetch, if set, gets a model that the source lacks before it is loaded.
	Fetch func(ctx context.Context, model string) error
	// Fence, if set, refuses orders of routers that have been replaced.
	Fence *Fence
	// Load names the models to load before New returns; "*" is all of them. Nil is
	// what the table says of simulated engines (those that are warm are put to sleep), and no
	// other model.
	Load []string
	// BlockTokens is the size of a block of the KV caches, as the metrics say it. Zero is 16.
	BlockTokens int
	// Cores are those of the host, as the server says them; zero says none. Threads compute one
	// request; zero is one.
	Cores   float64
	Threads int
	// Key is what clients must send as "Authorization: Bearer KEY", except to endpoints of health.
	// Empty admits all clients.
	Key string
	// Hosts are names of this server in addition to those of every machine's loopback addresses.
	Hosts []string
	// Faults to begin with. Faulty has the endpoint that changes them.
	Faults Faults
	Faulty bool
	// FaultSeed repeats the draws of the faults.
	FaultSeed uint64
	// Die ends the process for the fault that asks for it. Nil is [os.Exit].
	Die func()
	// Log gets nothing if nil.
	Log *slog.Logger
}

// Server answers for the models of its source.
type Server struct {
	models  *repository.Repository
	metrics *metrics
	faults  *injector
	faulty  bool // faults may be changed
	guard   *guard
	log     *slog.Logger
	source  repository.Source
	shared  []Shared
	fetch   func(ctx context.Context, model string) error // nil if there is nothing to fetch from
	fence   *Fence                                        // nil admits all orders
	created int64                                         // Unix time
	mux     *http.ServeMux

	activity  *activity
	processor *processor
	cores     float64
	threads   int
	instance  uint32 // of the process, as its load says it
}

// New loads the models that are to be there at the start; Close ends them.
func New(c Config) (*Server, error) {
	s := &Server{guard: newGuard(c.Key, c.Hosts), faulty: c.Faulty, log: c.Log, faults: newInjector(c.Faults, c.FaultSeed), shared: c.Shared, fetch: c.Fetch, fence: c.Fence, created: time.Now().Unix(),
		activity: newActivity(c.Cores), processor: newProcessor(), cores: c.Cores, threads: c.Threads, instance: max(1, rand.Uint32())}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	source, begun := c.Source, func() {}
	var warm []string
	if source == nil {
		simulated, err := newSimulated(c.Engines, c.Versions)
		if err != nil {
			return nil, err
		}
		source, begun = simulated, simulated.begin
		if c.Versions != "" {
			s.fetch = simulated.fetch
		}
		if c.Load == nil {
			c.Load, warm = simulated.initial()
		}
	}
	if c.Die == nil {
		c.Die = func() { os.Exit(1) }
	}
	s.metrics = newMetrics(s, cmp.Or(c.BlockTokens, 16))
	var err error
	s.models, err = repository.New(repository.Config{
		Source: faultySource{source, s.faults, c.Die}, Memory: c.Memory, Loaders: c.Loaders, Observe: s.metrics.observe, Log: s.log,
	})
	if err == nil {
		err = s.checkShared()
	}
	for _, name := range warm { // one after the other, before the rest has the memory
		if err = errors.Join(err, s.loadOne(context.Background(), name)); err == nil {
			err = s.models.Sleep(context.Background(), name, repository.Offload, false)
		}
	}
	if err == nil {
		err = s.load(c.Load)
	}
	if err != nil {
		s.models.Close()
		closeSource(source)
		return nil, err
	}
	begun()
	s.source = source
	s.routes()
	return s, nil
}

// load loads the models of the names.
func (s *Server) load(names []string) error {
	if slices.Contains(names, "*") {
		names = nil
		for _, m := range s.models.Statuses() {
			names = append(names, m.Name)
		}
	}
	for _, name := range names {
		if err := s.loadOne(context.Background(), name); err != nil {
			return err
		}
	}
	return nil
}

// loadOne loads a model, and fetches it before if the source lacks it.
func (s *Server) loadOne(ctx context.Context, name string) error {
	err := s.models.Load(ctx, name)
	var unknown *repository.UnknownError
	if s.fetch == nil || !errors.As(err, &unknown) {
		return err
	}
	if err := s.fetch(ctx, name); err != nil {
		return err
	}
	return s.models.Load(ctx, name)
}

// Loaded names the models that take requests, shared ones among them.
func (s *Server) Loaded() []string {
	names := []string{}
	for _, m := range s.served() {
		if m.State == repository.Ready {
			names = append(names, m.Name)
		}
	}
	return names
}

// Close ends all work and the engines. Serve does so itself.
func (s *Server) Close() {
	s.models.Close()
	closeSource(s.source)
}

// closeSource frees what a source has in addition to its models, if anything.
func closeSource(source repository.Source) {
	if c, ok := source.(io.Closer); ok {
		_ = c.Close()
	}
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for _, path := range []string{backend.ChatPath, backend.CompletionPath, backend.EmbeddingsPath, backend.ResponsesPath, backend.MessagesPath, backend.CountTokensPath, backend.ClassifyPath} {
		s.mux.HandleFunc("POST "+path, s.complete)
	}
	for _, path := range []string{"GET " + backend.ResponsesPath + "/{id}", "DELETE " + backend.ResponsesPath + "/{id}", "POST " + backend.ResponsesPath + "/{id}/cancel"} {
		s.mux.HandleFunc(path, s.keptResponse)
	}
	s.mux.HandleFunc("GET /v1/models", s.listModels)
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.Handle("GET /metrics", s.metrics.handler())
	s.mux.HandleFunc("GET "+gauges.LoadsPath, s.showLoads)
	if s.faulty {
		s.mux.HandleFunc("GET /fault", s.showFaults)
		s.mux.HandleFunc("POST /fault", s.setFaults)
	}
	s.routeRepository()
	s.routeSleep()
	s.mux.HandleFunc("/", unknownURL)
}

// unknownURL answers for what the server does not have.
func unknownURL(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "unknown_url", Message: "there is no " + r.Method + " " + r.URL.Path})
}

// Handler serves all endpoints.
func (s *Server) Handler() http.Handler { return s.protect(s.mux) }

// Serve accepts connections until the context ends, then gives requests in
// flight a moment, and cuts off the rest. It closes the listener and the engines.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	defer s.Close()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	s.log.Info("listening", "addr", l.Addr().String(), "models", s.modelNames())
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve on %q: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	<-failed
	return nil
}

// modelNames lists the models that are loaded.
func (s *Server) modelNames() string {
	var names []string
	for _, m := range s.served() {
		if m.State == repository.Ready || m.State == repository.Asleep {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, e wire.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(e.JSON())
}
