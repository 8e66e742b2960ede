package serving

import (
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/wire"
)

// health keeps replicas that cannot be connected to out of the choice for a
// while. It raises only what it took down itself.
type health struct {
	ledger   *fleet.Ledger
	cooldown time.Duration

	mu     sync.Mutex // protects all below
	timers map[int]*time.Timer
	closed bool
}

func newHealth(l *fleet.Ledger, cooldown time.Duration) *health {
	return &health{ledger: l, cooldown: cooldown, timers: map[int]*time.Timer{}}
}

// failure is how a replica failed a request. Its text is the label of metrics.
type failure string

// The failures. What a client did, by leaving or by asking for something
// impossible, is none.
const (
	// failedConnect: no connection could be made, so nothing was sent.
	failedConnect failure = "connect"
	// failedBroken: the connection broke, or what came is no answer.
	failedBroken failure = "broken"
	// failedStatus: it answered with a server error (5xx).
	failedStatus failure = "status"
	// failedTimeout: it was too slow to answer, or fell silent.
	failedTimeout failure = "timeout"
)

// failed is told of each request that the replica failed, as soon as that is
// known, by any goroutine.
func (h *health) failed(replica int, why failure) {
	if why == failedConnect {
		h.eject(replica)
	}
}

// succeeded is told of each request whose answer has come whole from the
// replica and is no server error, by any goroutine.
func (h *health) succeeded(replica int) {}

// eject takes the replica down until the cooldown is over. More failures in
// that time, of requests sent before, do not prolong it.
func (h *health) eject(replica int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.timers[replica] != nil {
		return
	}
	h.ledger.SetUp(replica, false)
	h.timers[replica] = time.AfterFunc(h.cooldown, func() { h.restore(replica) })
}

func (h *health) restore(replica int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.timers, replica)
	h.ledger.SetUp(replica, true)
}

func (h *health) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, timer := range h.timers {
		timer.Stop()
	}
}

// alive says that the process answers.
func (s *Server) alive(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }

// ready says whether requests should be sent here: not while shutting down,
// nor while every replica is down. A full fleet is ready; it asks for patience.
func (s *Server) ready(c *gin.Context) {
	switch {
	case s.draining.Load():
		s.notReady(c, "shutting down")
	case !s.anyUp():
		s.notReady(c, "no replica is up")
	default:
		c.JSON(http.StatusOK, gin.H{"status": "ready"})
	}
}

func (s *Server) notReady(c *gin.Context, why string) {
	s.fail(c, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "not_ready", Message: why})
}

func (s *Server) anyUp() bool {
	var v fleet.View
	s.router.Ledger().View(s.clock(), &v)
	for _, down := range v.Down {
		if !down {
			return true
		}
	}
	return false
}
