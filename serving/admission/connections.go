package admission

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"gearshift/serving/admin/scrape"
	"gearshift/serving/admission/limits"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// Connections bounds the connections of clients.
type Connections struct {
	*limits.Limiter
	files int // that the process may have open; zero is unknown
	known int64
	lines rate.Sometimes
	log   *slog.Logger
}

// NewConnections makes the bounds that the configuration sizes, for a process that may use
// so much memory and so many files. Trusted reports whether an address is that of a proxy.
func NewConnections(c *config.Config, memory int64, files int, trusted func(addr string) bool, log *slog.Logger) *Connections {
	bounds, size := connectionBounds(c, memory, files)
	return &Connections{limits.New(bounds, size, trusted), files, memory, rate.Sometimes{First: 1, Interval: lineInterval}, log}
}

// Follow takes in another configuration.
func (x *Connections) Follow(c *config.Config) { x.SetBounds(connectionBounds(c, x.known, x.files)) }

// connectionBounds are those of the configuration, and the memory that they are derived from.
func connectionBounds(c *config.Config, known int64, files int) (limits.Config, int64) {
	memory := c.Memory.Resolve(known, c.MaxBody).Limit
	return c.Connections.Resolve(memory, files), memory
}

type connectionKey struct{}

// Watch has the server report when its connections begin and end to wait.
func (x *Connections) Watch(server *http.Server) {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, admitted(c))
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			if c := admitted(c); c != nil {
				c.Idle()
			}
		}
	}
}

// admitted is the connection under the one that a server has; nil if it was not counted.
func admitted(c net.Conn) *limits.Conn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	a, _ := c.(*limits.Conn)
	return a
}

// Begin says that the connection of the request no longer waits.
func (x *Connections) Begin(r *http.Request) {
	if a, _ := r.Context().Value(connectionKey{}).(*limits.Conn); a != nil {
		a.Begin()
	}
}

// Limited is the listener with its connections bounded.
func (x *Connections) Limited(l net.Listener, encrypted bool, retryAfter time.Duration) net.Listener {
	var refusal []byte
	if !encrypted {
		refusal = tooManyConnections(retryAfter)
	}
	return x.Limiter.Listener(l, encrypted, refusal, func(reason string) {
		x.lines.Do(func() {
			open, bounds, counts := x.Usage()
			x.log.Warn("connections are refused", "bound", reason, "open", open, "total", bounds.Total, "per_address", bounds.PerAddress,
				"refused_for_total", counts.Total, "refused_for_address", counts.Address)
		})
	})
}

// tooManyConnections is the whole answer to a connection that is refused.
func tooManyConnections(after time.Duration) []byte {
	e := wire.Error{Type: wire.ServerError, Code: "too_many_connections", Message: "the router has too many connections; try again later"}
	body := e.JSON()
	head := fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %d\r\nConnection: close\r\n\r\n",
		len(body), int((after+time.Second-1)/time.Second))
	return append([]byte(head), body...)
}

var (
	connectionsOpen   = prometheus.NewDesc("gearshift_connections", "Connections of clients.", nil, nil)
	connectionsBounds = prometheus.NewDesc("gearshift_connections_limit", "The bounds on connections, in all and of one address.", []string{"scope"}, nil)
	connectionsClosed = prometheus.NewDesc("gearshift_connections_refused_total",
		"Connections refused for a bound (total, address), closed for lack of memory for their headers (headers), and idle ones closed to make way (idle).",
		[]string{"reason"}, nil)
)

// Metrics shows the connections of clients, their bounds, and those that were refused or closed.
func (x *Connections) Metrics() prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		open, bounds, counts := x.Usage()
		out.Gauge(connectionsOpen, float64(open))
		out.Gauge(connectionsBounds, float64(bounds.Total), "total")
		out.Gauge(connectionsBounds, float64(bounds.PerAddress), "address")
		out.Counter(connectionsClosed, float64(counts.Total), limits.ReasonTotal)
		out.Counter(connectionsClosed, float64(counts.Address), limits.ReasonAddress)
		out.Counter(connectionsClosed, float64(counts.Headers), "headers")
		out.Counter(connectionsClosed, float64(counts.Idle), "idle")
	}, connectionsOpen, connectionsBounds, connectionsClosed)
}
