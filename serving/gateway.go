package serving

import (
	"io"
	"maps"
	"net"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/config"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// This file adapts a server to a gateway that asks the router for endpoints.

// Unready returns why the server should get no requests; empty if it should.
func (s *Server) Unready() string { return s.overview.Unready() }

// passed stands for the policy of requests to unknown paths.
const passed = "passed"

// passer sends a gateway's requests for paths that it is to pass to the replica with the fewest requests in flight. They
// hold a place, and are not judged.
type passer struct {
	adapter  *work.Adapter
	ledger   *fleet.Ledger
	backends []config.Backend
	reply    *proxy.Writer
	clock    work.Clock
}

var noReplica = wire.Error{Type: wire.ServerError, Code: "no_replica", Message: "no replica that could answer is up"}

// pass reports whether it has had the request answered.
func (x *passer) pass(c *gin.Context) bool {
	by := proxy.CarrierOf(c.Request.Context())
	if by == nil || !by.Passes(c.Request.URL.Path) {
		return false
	}
	w := x.place(by.Hidden())
	if w == nil {
		x.reply.Fail(c, http.StatusServiceUnavailable, noReplica)
		return true
	}
	outcome := work.Panicked
	defer func() { w.End(outcome, 0) }()
	if !proxy.Prepared(x.backends[w.Replica].Transport, c.Request) {
		outcome = work.Failed
		x.reply.Fail(c, http.StatusServiceUnavailable, noReplica)
		return true
	}
	answer, _, err := by.Carry([]int{w.Replica}, c.Request)
	switch {
	case err == proxy.ErrUnseen:
		outcome = work.Completed
		return true
	case err != nil:
		outcome = work.Failed
		x.reply.Fail(c, http.StatusBadGateway, wire.Error{Type: wire.ServerError, Code: "upstream_unavailable", Message: "the replica could not be reached or broke off"})
		return true
	}
	maps.Copy(c.Writer.Header(), answer.Header)
	c.Status(answer.StatusCode)
	c.Writer.WriteHeaderNow()
	if _, err = io.Copy(c.Writer, answer.Body); err != nil {
		outcome = work.Failed
		panic(http.ErrAbortHandler)
	}
	outcome = work.Completed
	return true
}

// place takes a place on a replica that is not hidden; nil without one.
func (x *passer) place(hidden []int) *work.Work {
	var v fleet.View
	x.ledger.View(x.clock(), &v)
	v.Restrict(&fleet.Request{Without: hidden})
	best := -1
	for i := range v.Down {
		if v.Available(i) && (best < 0 || v.InFlight[i] < v.InFlight[best]) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	w, _ := x.adapter.Place(fleet.Request{}, best, passed)
	return w
}

// silence is a listener without connections, for a server that answers gateways only.
type silence struct {
	once  sync.Once
	ended chan struct{}
}

func newSilence() *silence { return &silence{ended: make(chan struct{})} }

// Accept implements [net.Listener].
func (s *silence) Accept() (net.Conn, error) {
	<-s.ended
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (s *silence) Close() error {
	s.once.Do(func() { close(s.ended) })
	return nil
}

// Addr implements [net.Listener].
func (s *silence) Addr() net.Addr { return nowhere{} }

type nowhere struct{}

func (nowhere) Network() string { return "none" }
func (nowhere) String() string  { return config.AdminOff }
