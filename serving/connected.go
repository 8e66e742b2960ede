package serving

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"gearshift/serving/connections"
	"gearshift/serving/wire"
)

// connected bounds the connections of clients.
type connected struct {
	*connections.Limiter
	files int // that the process may have open; zero is unknown
	lines rate.Sometimes
}

func (s *Server) newConnected(memory int64, files int) *connected {
	bounds, memory := connectionBounds(&s.config, memory, files)
	trusted := func(addr string) bool { return s.live.Load().proxies.Trust(addr) }
	return &connected{connections.New(bounds, memory, trusted), files, rate.Sometimes{First: 1, Interval: memoryLineInterval}}
}

// connectionBounds are those of the configuration, and the memory that they are derived from.
func connectionBounds(c *Config, known int64, files int) (connections.Config, int64) {
	memory := c.Memory.Resolve(known, c.MaxBody).Limit
	return c.Connections.Resolve(memory, files), memory
}

// clientServer is the HTTP server of the clients' listener.
func (s *Server) clientServer() *http.Server {
	server := s.httpServer(s.cleaned)
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
	return server
}

type connectionKey struct{}

// admitted is the connection under the one that a server has; nil if it was not counted.
func admitted(c net.Conn) *connections.Conn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	a, _ := c.(*connections.Conn)
	return a
}

// atWork says that the request's connection is no longer one that waits.
func (s *Server) atWork(c *gin.Context) {
	if a, _ := c.Request.Context().Value(connectionKey{}).(*connections.Conn); a != nil {
		a.Begin()
	}
}

// holdHeader has the header of an encrypted request count while it is at work. One that
// is not encrypted counted as it came.
func (s *Server) holdHeader(c *gin.Context) {
	if c.Request.TLS == nil {
		return
	}
	held, ok := s.clients.Hold(c.Request.Header)
	if !ok {
		c.Header("Connection", "close")
		s.refuse(c, s.noMemory(c, "for headers"))
		return
	}
	if held > 0 {
		defer s.clients.Release(held)
		c.Next()
	}
}

// limited is the listener with its connections bounded.
func (s *Server) limited(l net.Listener, encrypted bool) net.Listener {
	var refusal []byte
	if !encrypted {
		refusal = tooManyConnections(s.settings().RetryAfter)
	}
	return s.clients.Listener(l, encrypted, refusal, func(reason string) {
		s.clients.lines.Do(func() {
			open, bounds, counts := s.clients.Usage()
			s.log.Warn("connections are refused", "bound", reason, "open", open, "total", bounds.Total, "per_address", bounds.PerAddress,
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

// Describe implements [prometheus.Collector].
func (x *connected) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsOpen
	out <- connectionsBounds
	out <- connectionsClosed
}

// Collect implements [prometheus.Collector].
func (x *connected) Collect(out chan<- prometheus.Metric) {
	open, bounds, counts := x.Usage()
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(connectionsOpen, open)
	gauge(connectionsBounds, bounds.Total, "total")
	gauge(connectionsBounds, bounds.PerAddress, "address")
	for _, c := range []struct {
		reason string
		n      uint64
	}{{connections.ReasonTotal, counts.Total}, {connections.ReasonAddress, counts.Address}, {"headers", counts.Headers}, {"idle", counts.Idle}} {
		out <- prometheus.MustNewConstMetric(connectionsClosed, prometheus.CounterValue, float64(c.n), c.reason)
	}
}
