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
)

// drain is the order to end in peace.
type drain struct {
	once    sync.Once
	ordered chan struct{}
	busy    atomic.Int64 // handlers at work
}

// lastWords is how long requests that were cut off have to enter themselves in the books.
const lastWords = time.Second

// count counts the handlers at work.
func (d *drain) count(c *gin.Context) {
	d.busy.Add(1)
	defer d.busy.Add(-1)
	c.Next()
}

// settle waits for handlers whose connections are closed, and not for one that hangs.
func (d *drain) settle() {
	for late := time.Now().Add(lastWords); d.busy.Load() > 0 && time.Now().Before(late); {
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
	return s.settings().ReadyGrace + s.settings().DrainTimeout + lastWords + adminGrace
}

func (s *Server) orderDrain(c *gin.Context) {
	s.log.Info("drain ordered", "by", "admin")
	s.Drain()
	c.JSON(http.StatusAccepted, gin.H{"draining": true, "in_flight": s.router.Ledger().InFlight()})
}

// retreat ends a running server: it reports not ready for Config.ReadyGrace, and
// still answers, so that load balancers turn away before connections are refused;
// then it finishes what is in flight.
func (s *Server) retreat(ctx context.Context, server *http.Server, failed <-chan error) error {
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
	err := server.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests cut off at shutdown", "in_flight", s.router.Ledger().InFlight())
		err = server.Close()
		s.drain.settle()
	}
	<-failed
	if err != nil {
		return fmt.Errorf("cannot shut down: %w", err)
	}
	s.log.Info("stopped")
	return nil
}
