package picker

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"gearshift/serving"
)

// Module is the picker of a server. It implements [serving.Module].
type Module struct {
	Config
	log     *slog.Logger
	options Options
	server  *serving.Server
	metrics *pickerMetrics
}

// NewModule makes the picker of a server with this number of replicas. Address returns a replica's IP:PORT; empty if it
// cannot be reached now.
func NewModule(c Config, replicas int, address func(replica int) string, log *slog.Logger) *Module {
	return &Module{Config: c, log: log, metrics: newMetrics(), options: Options{Replicas: replicas, Address: address, Passes: c.passes, Log: log}}
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.server = s
	return serving.Parts{Metrics: m.metrics.collectors()}
}

// Listen listens at the configured address, and returns the function that serves gateways there until its context ends.
func (m *Module) Listen(ctx context.Context) (serve func(context.Context) error, err error) {
	o := m.options
	if o.Credentials, err = m.credentials(m.server.Certificate); err != nil {
		return nil, err
	}
	l, err := serving.Listen(ctx, m.Addr)
	if err != nil {
		return nil, fmt.Errorf("for gateways (--extproc, serving.picker.addr): %w", err)
	}
	o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.server.Handler().ServeHTTP(w, r) })
	o.Unready = m.server.Unready
	p := newPicker(o, m.metrics)
	m.log.Info("listening for gateways", "addr", l.Addr().String(), "tls", o.Credentials != nil)
	return func(ctx context.Context) error {
		return p.Serve(ctx, l, m.server.EndsWithin)
	}, nil
}

var _ serving.Module = (*Module)(nil)
