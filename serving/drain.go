package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/admission"
	"gearshift/serving/openai/proxy"
)

// drain is the order to end in peace.
type drain struct {
	settings func() *Config
	log      *slog.Logger
	ledger   *fleet.Ledger
	clients  *admission.Connections

	draining atomic.Bool
	once     sync.Once
	ordered  chan struct{}
	busy     atomic.Int64 // handlers at work
	carried  atomic.Int64 // of these, those of gateways' requests
}

// order orders the end, once.
func (d *drain) order() {
	d.draining.Store(true)
	d.once.Do(func() { close(d.ordered) })
}

// settleTime is how long requests that were cut off have to be counted.
const settleTime = time.Second

// count counts the handlers at work.
func (d *drain) count(c *gin.Context) {
	d.busy.Add(1)
	defer d.busy.Add(-1)
	if proxy.CarrierOf(c.Request.Context()) != nil {
		d.carried.Add(1)
		defer d.carried.Add(-1)
	}
	c.Next()
}

// lastMoment is how long connections that stand may still bring a request when no new one is
// taken any more: a server that shuts down drops what it reads from then on.
const lastMoment = 500 * time.Millisecond

// await waits until over reports true, or for so long.
func await(most time.Duration, over func() bool) {
	for late := time.Now().Add(most); !over() && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
}

// retreat ends a running server: it reports not ready for Config.ReadyGrace, and
// still answers, so that load balancers turn away before connections are refused;
// then it ends to listen, and finishes what is in flight, of gateways too.
func (d *drain) retreat(ctx context.Context, server *http.Server, unlisten func(), failed <-chan error) error {
	d.order()
	d.log.Info("draining", "in_flight", d.ledger.InFlight())
	if d.settings().ReadyGrace > 0 {
		grace := time.NewTimer(d.settings().ReadyGrace)
		defer grace.Stop()
		select {
		case err := <-failed:
			return fmt.Errorf("cannot serve: %w", err)
		case <-grace.C:
		}
	}
	late := time.Now().Add(d.settings().DrainTimeout)
	wait, cancel := context.WithDeadline(context.WithoutCancel(ctx), late)
	defer cancel()
	unlisten()
	<-failed // all who had connected are accepted
	// Until no connection is left that could bring a request, or for a moment: the others are idle, and their
	// clients have not asked since the end was ordered.
	await(min(lastMoment, d.settings().DrainTimeout), func() bool { return d.clients.Waiting() == 0 })
	err := server.Shutdown(wait)
	if err == nil { // requests by gateways are on no connection of the server
		over := func() bool { return d.carried.Load() == 0 }
		if await(time.Until(late), over); !over() {
			err = context.DeadlineExceeded
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("requests cut off at shutdown", "in_flight", d.ledger.InFlight())
		err = server.Close()
		await(settleTime, func() bool { return d.busy.Load() == 0 }) // not for a handler that hangs
	}
	if err != nil {
		return fmt.Errorf("cannot shut down: %w", err)
	}
	d.log.Info("stopped")
	return nil
}
