package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"gearshift/serving/access"
	"gearshift/serving/admin"
	"gearshift/serving/config"
)

// newGuard makes what lets operators and agents of engines in.
func (s *Server) newGuard(o *Options) (*admin.Guard, error) {
	c := &s.config.Admin
	guarded := admin.Options{
		Token: o.AdminToken, TokenEnv: c.TokenEnv, FleetToken: o.FleetToken, FleetTokenEnv: c.FleetTokenEnv, Addr: c.Addr,
		Proxies: func() access.Proxies { return s.running.Load().Proxies },
		Rules:   func() *access.PageRules { return s.running.Load().Browser },
		Fail:    s.reply.Fail, Clock: s.clock, Log: s.log,
	}
	if c.TLS.On() {
		guarded.Certificate = func() *tls.Certificate { return s.running.Load().AdminCert }
	}
	guard, err := admin.NewGuard(guarded)
	if err == nil {
		s.metrics.Registry.MustRegister(guard.Metrics())
	}
	return guard, err
}

// newOrders makes the endpoints of the admin API.
func (s *Server) newOrders() *admin.Orders {
	return &admin.Orders{
		Overview: s.overview, Engines: s.engines, Trials: s.trials, Leases: s.route.leases, Ledger: s.router.Ledger(), Loads: s.loads.Feed,
		OrderPolicy: s.reloads.orderPolicy,
		Reload:      func(by string) (any, error) { return s.Reload(by) },
		Drain: func() int {
			s.Drain()
			return s.router.Ledger().InFlight()
		},
		Fail: s.reply.Fail, Log: s.log,
	}
}

// AdminHandler serves the operator's endpoints. Nothing of it is reachable
// through [Server.Handler].
func (s *Server) AdminHandler() http.Handler { return s.adminHandler }

// ListenAdmin takes the admin address, for ServeAdmin; nil if that is off.
func (s *Server) ListenAdmin(ctx context.Context) (net.Listener, error) {
	if s.config.Admin.Addr == config.AdminOff {
		return nil, nil
	}
	l, err := Listen(ctx, s.config.Admin.Addr)
	if err != nil {
		return nil, fmt.Errorf("%w; serving.admin.addr can be another address, or %s", err, config.AdminOff)
	}
	return l, nil
}

// ServeAdmin serves the admin API until the context ends, which should be after
// the end of Serve, so that a drain can be watched. It closes the listener.
func (s *Server) ServeAdmin(ctx context.Context, l net.Listener) error {
	addr := l.Addr().String()
	s.home.adminAddr.Store(&addr)
	return s.guard.Serve(ctx, httpServer(&s.config, s.log, s.adminHandler), l, s.home.pageURL())
}

// httpServer serves the handler, with bounds on what a connection may cost.
func httpServer(c *config.Config, log *slog.Logger, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: c.HeaderTimeout,
		MaxHeaderBytes:    c.MaxHeader,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
