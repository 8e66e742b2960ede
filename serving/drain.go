package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/admin"
)

// drain is the order to end in peace.
type drain struct {
	once    sync.Once
	ordered chan struct{}
	busy    atomic.Int64 // handlers at work
}

// settleTime is how long requests that were cut off have to be counted.
const settleTime = time.Second

// count counts the handlers at work.
func (d *drain) count(c *gin.Context) {
	d.busy.Add(1)
	defer d.busy.Add(-1)
	c.Next()
}

// lastMoment is how long connections that stand may still bring a request when no new one is
// taken any more: a server that shuts down drops what it reads from then on.
const lastMoment = 500 * time.Millisecond

// lastRequests waits until no connection is left that could bring a request, or for a moment: the
// others are idle, and their clients have not asked since the end was ordered.
func (s *Server) lastRequests() {
	late := time.Now().Add(min(lastMoment, s.settings().DrainTimeout))
	for s.clients.Waiting() > 0 && time.Now().Before(late) {
		time.Sleep(time.Millisecond)
	}
}

// settle waits for handlers whose connections are closed, and not for one that hangs.
func (d *drain) settle() {
	for late := time.Now().Add(settleTime); d.busy.Load() > 0 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
}

// Drain makes Serve end as if its context had: not ready first, then no more
// connections, and an end once the requests in flight are over. It returns at
// once, and a second call changes nothing.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.drain.once.Do(func() { close(s.drain.ordered) })
}

// EndsWithin is how long Serve and ServeAdmin may take once their contexts end.
func (s *Server) EndsWithin() time.Duration {
	return s.settings().ReadyGrace + s.settings().DrainTimeout + settleTime + admin.Grace
}

// retreat ends a running server: it reports not ready for Config.ReadyGrace, and
// still answers, so that load balancers turn away before connections are refused;
// then it ends to listen, and finishes what is in flight.
func (s *Server) retreat(ctx context.Context, server *http.Server, unlisten func(), failed <-chan error) error {
	s.Drain()
	s.log.Info("draining", "in_flight", s.router.Ledger().InFlight())
	if s.settings().ReadyGrace > 0 {
		grace := time.NewTimer(s.settings().ReadyGrace)
		defer grace.Stop()
		select {
		case err := <-failed:
			return fmt.Errorf("cannot serve: %w", err)
		case <-grace.C:
		}
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.settings().DrainTimeout)
	defer cancel()
	unlisten()
	<-failed // all who had connected are accepted
	s.lastRequests()
	err := server.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests cut off at shutdown", "in_flight", s.router.Ledger().InFlight())
		err = server.Close()
		s.drain.settle()
	}
	if err != nil {
		return fmt.Errorf("cannot shut down: %w", err)
	}
	s.log.Info("stopped")
	return nil
}
