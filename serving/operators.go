package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/access"
	"gearshift/serving/admin"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// operators is the operators' side of a Server: who may use it, and its endpoints.
type operators struct {
	*admin.Guard
	orders *admin.Orders
	engine *gin.Engine
}

func (s *Server) newOperators(token, fleet string) (*operators, error) {
	o := admin.Options{
		Token: token, TokenEnv: s.config.Admin.TokenEnv, FleetToken: fleet, FleetTokenEnv: s.config.Admin.FleetTokenEnv, Addr: s.config.Admin.Addr,
		Proxies: func() access.Proxies { return s.running.Load().Proxies },
		Rules:   func() *access.PageRules { return s.running.Load().Browser },
		Fail:    s.fail, Clock: s.clock, Log: s.log,
	}
	if s.config.Admin.TLS.On() {
		o.Certificate = func() *tls.Certificate { return s.running.Load().AdminCert }
	}
	guard, err := admin.NewGuard(o)
	if err != nil {
		return nil, err
	}
	s.metrics.Registry.MustRegister(guard.Metrics())
	return &operators{Guard: guard, orders: s.newOrders()}, nil
}

// newOrders makes the endpoints of the admin API.
func (s *Server) newOrders() *admin.Orders {
	return &admin.Orders{
		Overview: s.overview, Engines: s.engines, Trials: s.trials, Leases: s.leases,
		FindReplica: s.FindReplica, DrainReplica: s.DrainReplica, OrderPolicy: s.OrderPolicy,
		Reload: func(by string) (any, error) { return s.Reload(by) },
		Drain: func() int {
			s.Drain()
			return s.router.Ledger().InFlight()
		},
		Fail: s.fail, Log: s.log,
	}
}

// AdminHandler serves the operator's endpoints. Nothing of it is reachable
// through [Server.Handler].
func (s *Server) AdminHandler() http.Handler { return s.operators.engine }

// ListenAdmin takes the admin address, for ServeAdmin; nil if that is off.
func (s *Server) ListenAdmin(ctx context.Context) (net.Listener, error) {
	if s.config.Admin.Addr == config.AdminOff {
		return nil, nil
	}
	l, err := listen(ctx, s.config.Admin.Addr)
	if err != nil {
		return nil, fmt.Errorf("%w; serving.admin.addr can be another address, or %s", err, config.AdminOff)
	}
	return l, nil
}

// ServeAdmin serves the admin API until the context ends, which should be after
// the end of Serve, so that a drain can be watched. It closes the listener.
func (s *Server) ServeAdmin(ctx context.Context, l net.Listener) error {
	addr := l.Addr().String()
	s.adminAddr.Store(&addr)
	return s.operators.Serve(ctx, s.httpServer(s.operators.engine), l, s.pageURL())
}

// httpServer serves the handler, with bounds on what a connection may cost.
func (s *Server) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		MaxHeaderBytes:    s.config.MaxHeader,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// FindReplica is the index of the replica of that name, or what to answer who asks for it.
func (s *Server) FindReplica(name string) (int, *wire.Error) {
	var names []string
	for i, r := range s.table.Replicas {
		if names = append(names, r.Name); r.Name == name {
			return i, nil
		}
	}
	return -1, &wire.Error{Type: wire.InvalidRequest, Code: "unknown_replica",
		Message: fmt.Sprintf("there is no replica %q; there are %s", name, strings.Join(names, ", "))}
}

// DrainReplica keeps new requests away from the replica, or lets them in again.
// What is in flight on it goes on. It holds until a restart, whatever probes find.
func (s *Server) DrainReplica(replica int, drained bool) {
	s.router.Ledger().SetDrained(replica, drained)
	s.log.Info("replica order", "replica", s.table.Replicas[replica].Name, "drained", drained, "by", byAdmin)
}

var drainedDesc = prometheus.NewDesc("gearshift_replica_drained", "Whether an operator keeps new requests away from the replica.", []string{"replica", "variant"}, nil)

// drainMetrics shows drained replicas when metrics are scraped.
func (s *Server) drainMetrics() prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		for i, r := range s.table.Replicas {
			out.Flag(drainedDesc, s.router.Ledger().Drained(i), r.Name, s.table.Variants[r.Variant].Name)
		}
	}, drainedDesc)
}
