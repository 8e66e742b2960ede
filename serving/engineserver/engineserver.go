// Package engineserver is an inference server: the engines of one host, simulated
// ones or others, behind the HTTP interface of vLLM, metrics' names included. To a router it is
// a server like any other, so that serving can be tried, and tested, across real
// connections without a GPU. It can be told to misbehave; see [Faults].
package engineserver

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/backend"
	"gearshift/serving/wire"
)

// Config is what a Server is made of.
type Config struct {
	// Engines run in real time. The table has at most one replica of each
	// variant, whose name is the model's. Observe must be unset.
	Engines backend.SimulatedConfig
	// Start, if set, starts other engines for the replicas of Engines.Table, of
	// which nothing else is used. They tell observe of each answer as it ends.
	Start func(observe func(backend.Span)) (Engines, error)
	// BlockTokens is the size of a block of the KV caches, as the metrics say it. Zero is 16.
	BlockTokens int
	// Key is what clients must send as "Authorization: Bearer KEY". Empty
	// lets everybody in.
	Key string
	// Faults to begin with.
	Faults Faults
	// FaultSeed repeats the draws of the faults.
	FaultSeed uint64
	// Log gets nothing if nil.
	Log *slog.Logger
}

// Engines answer for the replicas of a table, by their index.
type Engines interface {
	Replica(i int) http.RoundTripper
	Load(i int) backend.Load
	// Close ends all work.
	Close()
}

// Server answers for the engines of its table.
type Server struct {
	table   *fleet.Table
	models  map[string]int // replicas by their variant's name
	engines Engines
	metrics *metrics
	faults  *injector
	key     string
	log     *slog.Logger
	created int64 // Unix time
	mux     *http.ServeMux
}

// New starts the engines; Close ends them.
func New(c Config) (*Server, error) {
	s := &Server{
		table: c.Engines.Table, models: map[string]int{}, key: c.Key, log: c.Log,
		faults: newInjector(c.Faults, c.FaultSeed), created: time.Now().Unix(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i, r := range s.table.Replicas {
		name := s.table.Variants[r.Variant].Name
		if _, twice := s.models[name]; twice {
			return nil, fmt.Errorf("cannot make engine server: two replicas of %q; one server has each model once", name)
		}
		s.models[name] = i
	}
	if c.Engines.Observe != nil {
		return nil, errors.New("cannot make engine server: Engines.Observe is the server's own")
	}
	s.metrics = newMetrics(s, cmp.Or(c.BlockTokens, 16))
	if c.Start == nil {
		c.Start = func(observe func(backend.Span)) (Engines, error) {
			c.Engines.Observe = observe
			return backend.NewSimulated(c.Engines)
		}
	}
	var err error
	if s.engines, err = c.Start(s.metrics.observe); err != nil {
		return nil, err
	}
	s.routes()
	return s, nil
}

// Close ends all work and the engines. Serve does so itself.
func (s *Server) Close() { s.engines.Close() }

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for _, path := range []string{backend.ChatPath, backend.CompletionPath, backend.EmbeddingsPath, backend.ResponsesPath, backend.MessagesPath, backend.CountTokensPath, backend.ClassifyPath} {
		s.mux.HandleFunc("POST "+path, s.authorised(s.complete))
	}
	for _, path := range []string{"GET " + backend.ResponsesPath + "/{id}", "DELETE " + backend.ResponsesPath + "/{id}", "POST " + backend.ResponsesPath + "/{id}/cancel"} {
		s.mux.HandleFunc(path, s.authorised(s.keptResponse))
	}
	s.mux.HandleFunc("GET /v1/models", s.authorised(s.listModels))
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.Handle("GET /metrics", s.metrics.handler())
	s.mux.HandleFunc("GET /fault", s.showFaults)
	s.mux.HandleFunc("POST /fault", s.setFaults)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "unknown_url", Message: "there is no " + r.Method + " " + r.URL.Path})
	})
}

// Handler serves all endpoints.
func (s *Server) Handler() http.Handler { return s.mux }

// Serve accepts connections until the context ends, then gives requests in
// flight a moment, and cuts off the rest. It closes the listener and the engines.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
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

func (s *Server) authorised(next http.HandlerFunc) http.HandlerFunc {
	if s.key == "" {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(key), []byte(s.key)) != 1 {
			fail(w, http.StatusUnauthorized, wire.Error{Type: wire.InvalidRequest, Code: "invalid_api_key", Message: "the API key is missing or wrong"})
			return
		}
		next(w, r)
	}
}

// modelNames lists the models in the table's order.
func (s *Server) modelNames() string {
	names := make([]string, len(s.table.Replicas))
	for i, r := range s.table.Replicas {
		names[i] = s.table.Variants[r.Variant].Name
	}
	return strings.Join(names, ", ")
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, e wire.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(e.JSON())
}
