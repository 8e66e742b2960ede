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

	"gearshift/router/control"
	"gearshift/serving/admin"
	"gearshift/serving/browser"
	"gearshift/serving/config"
	"gearshift/serving/remote"
	"gearshift/serving/scrape"
	"gearshift/serving/wire"
)

// operators is the operators' side of a Server: who may use it, and its endpoints.
type operators struct {
	*admin.Guard
	orders *admin.Orders
	engine *gin.Engine
}

func (s *Server) newOperators(token string) (*operators, error) {
	o := admin.Options{
		Token: token, TokenEnv: s.config.Admin.TokenEnv, Addr: s.config.Admin.Addr,
		Proxies: func() remote.Proxies { return s.running.Load().Proxies },
		Rules:   func() *browser.Rules { return s.running.Load().Browser },
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
	return &operators{Guard: guard, orders: admin.NewOrders(operations{s}, s.fail, s.log)}, nil
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

// operations are what operators order of a Server.
type operations struct{ *Server }

// Status implements [admin.Operations], as do the methods below.
func (x operations) Status() any { return x.Server.Status() }

func (x operations) Replicas() any { return x.Server.Status().Replicas }

func (x operations) Replica(replica int) any { return x.Server.Status().Replicas[replica] }

func (x operations) OrderEngine(replica int, v control.Verb, level int) (begun bool, err error) {
	return x.engines.Order(replica, v, level)
}

func (x operations) WaitEngine(ctx context.Context, replica int) (ended bool, err error) {
	return x.engines.Wait(ctx, replica)
}

func (x operations) Policies(note string) any {
	out := x.Server.Policies()
	out.Note = note
	return out
}

func (x operations) Leases(revoked int) any {
	out := x.leases.List()
	out.Revoked = revoked
	return out
}

func (x operations) RevokeLeases(f func(key, id string) bool) int {
	return x.leases.Revoke(f, byAdmin)
}

func (x operations) Reload(by string) (any, error) { return x.Server.Reload(by) }

func (x operations) Drain() (inFlight int) {
	x.Server.Drain()
	return x.router.Ledger().InFlight()
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
