// Package overview is what the server says of itself: what it has done so far, how its fleet
// is, whether it is alive, and whether requests should be sent to it.
package overview

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/engines"
	"gearshift/serving/engines/informed"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// Options are what an Overview is made of. The functions are called from any goroutine.
type Options struct {
	Router  work.Router
	Metrics *metrics.Requests
	Engines *engines.Engines
	// Held is how many tokens the requests on the replica hold.
	Held func(replica int) int
	// Context is how many tokens a prompt and its answer may have together on the replica;
	// zero if that is not known.
	Context func(replica int) int
	// Signals are what is known of the load of each replica; nil where that is nothing.
	Signals func(now time.Duration) []*informed.Status
	// Jobs are the workers of models whose inputs are chosen.
	Jobs func() []jobs.Queue
	// Tuning returns how a search for rules is going; nil: there is none.
	Tuning func() *Tuning
	// Draining reports whether the server is shutting down.
	Draining func() bool
	// Joining lists functions that return why requests should not be sent here yet, or "".
	Joining []func() string
	// Fail answers with an error.
	Fail  func(c *gin.Context, status int, e wire.Error)
	Clock work.Clock
	// Started is when the server did.
	Started time.Duration
}

// Overview looks at the server when it is asked. Its methods may be called from any goroutine.
type Overview struct {
	Options
	table *fleet.Table
}

// New makes an Overview.
func New(o Options) *Overview {
	return &Overview{Options: o, table: o.Router.Table()}
}

// ServeStatus answers with the status.
func (o *Overview) ServeStatus(c *gin.Context) { c.JSON(http.StatusOK, o.Status()) }

// Alive answers, which says that the process does.
func (o *Overview) Alive(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }

// Ready answers whether requests should be sent here: not while shutting down,
// nor while every replica is down. A full fleet is ready; it asks for patience.
func (o *Overview) Ready(c *gin.Context) {
	if why := o.Unready(); why != "" {
		o.notReady(c, why)
		return
	}
	c.JSON(http.StatusOK, gin.H{"status": "ready"})
}

// Unready returns why the router should get no requests; empty if it should.
func (o *Overview) Unready() string {
	switch {
	case o.Draining():
		return "shutting down"
	case !o.anyUp():
		return "no replica is up"
	}
	for _, f := range o.Joining {
		if why := f(); why != "" {
			return why
		}
	}
	return ""
}

func (o *Overview) notReady(c *gin.Context, why string) {
	o.Fail(c, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "not_ready", Message: why})
}

func (o *Overview) anyUp() bool {
	var v fleet.View
	o.Router.Ledger().View(o.Clock(), &v)
	for _, down := range v.Down {
		if !down {
			return true
		}
	}
	return false
}
