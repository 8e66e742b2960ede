package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/admin/overview"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/admin/trial"
	"gearshift/serving/admission"
	"gearshift/serving/engines"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engines/informed"
	"gearshift/serving/openai/wire"
)

// By is who wants something done that an operator has ordered, for the log.
const By = "admin"

// Orders are the endpoints of the admin API, and the rooms that carry out what operators order.
// The functions are called from any goroutine.
type Orders struct {
	Overview *overview.Overview
	Engines  *engines.Engines
	Trials   *trial.Trials
	Leases   *admission.LeaseManager
	Ledger   *fleet.Ledger
	Loads    *informed.Feed
	// OrderPolicy carries out an order about policies. The note says what else is to be known.
	OrderPolicy func(order, policy string, share float64, reason string) (note string, err error)
	// Reload reads the files again. What comes of it is answered as JSON.
	Reload func(by string) (any, error)
	// Drain makes the server end, and returns how many requests are in flight.
	Drain func() (inFlight int)
	// Fail answers with an error.
	Fail func(c *gin.Context, status int, e wire.Error)
	Log  *slog.Logger
}

// Route is an endpoint for operators who have the token. Its path is written as that of a
// module's.
type Route struct {
	Method, Path string
	Serve        gin.HandlerFunc
	// About says in a line what the endpoint does; empty of what needs no line.
	About string
}

// Routes are the endpoints.
func (o *Orders) Routes() []Route {
	list := []Route{
		{http.MethodGet, "/admin/status", o.show(func() any { return o.Overview.Status() }), ""},
		{http.MethodPost, "/admin/drain", o.drain, ""},
		{http.MethodPost, "/admin/reload", o.reload, ""},
		{http.MethodGet, "/admin/replicas", o.show(func() any { return o.Overview.Status().Replicas }), ""},
		{http.MethodPost, "/admin/replicas/{replica...}/drain", o.drainReplica(true), ""},
		{http.MethodPost, "/admin/replicas/{replica...}/undrain", o.drainReplica(false), ""},
		{http.MethodPost, "/admin/replicas/{replica...}/signal", o.pushLoad, ""},
		{http.MethodGet, "/admin/policy", o.show(func() any { return o.Trials.Policies() }), ""},
		{http.MethodPost, "/admin/policy/{order}", o.orderPolicy, ""},
		{http.MethodGet, "/admin/leases", o.show(func() any { return o.Leases.List() }), ""},
		{http.MethodDelete, "/admin/leases", o.revokeLeases, ""},
		{http.MethodDelete, "/admin/leases/{lease}", o.revokeLease, ""},
	}
	return append(list, o.engineRoutes()...)
}

// show answers with the value as it is now.
func (o *Orders) show(value func() any) gin.HandlerFunc {
	return func(c *gin.Context) { c.JSON(http.StatusOK, value()) }
}

func (o *Orders) drain(c *gin.Context) {
	o.Log.Info("drain ordered", "by", By)
	c.JSON(http.StatusAccepted, gin.H{"draining": true, "in_flight": o.Drain()})
}

func (o *Orders) reload(c *gin.Context) {
	out, err := o.Reload(By)
	if err != nil {
		o.Fail(c, http.StatusUnprocessableEntity, wire.Error{
			Type: wire.InvalidRequest, Code: "reload_failed",
			Message: fmt.Sprintf("the last good state stays: %v", err),
		})
		return
	}
	c.JSON(http.StatusOK, out)
}

// replica finds the replica that the path names. If there is none, the request is answered.
func (o *Orders) replica(c *gin.Context) (index int, ok bool) {
	name := strings.TrimPrefix(c.Param("replica"), "/")
	var names []string
	for i, r := range o.Ledger.Table().Replicas {
		if names = append(names, r.Name); r.Name == name {
			return i, true
		}
	}
	o.Fail(c, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "unknown_replica",
		Message: fmt.Sprintf("there is no replica %q; there are %s", name, strings.Join(names, ", "))})
	return -1, false
}

// pushLoad answers POST /admin/replicas/NAME/signal. It takes in what an engine, or who watches it, says of
// its load: the value of ORCA's header, in either form.
func (o *Orders) pushLoad(c *gin.Context) {
	replica, ok := o.replica(c)
	if !ok {
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, 16<<10))
	var l signals.Load
	if err == nil {
		l, err = gauges.ParseLoad(string(text))
	}
	if err == nil {
		if f := o.Loads.Pushed(replica, l); f.Refused() {
			err = fmt.Errorf("the load is not used: it is %v", f)
		}
	}
	if err != nil {
		o.Fail(c, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_load", Message: err.Error()})
		return
	}
	c.Status(http.StatusNoContent)
}

var drainedDesc = prometheus.NewDesc("gearshift_replica_drained", "Whether an operator keeps new requests away from the replica.", []string{"replica", "variant"}, nil)

// Metrics shows drained replicas when metrics are scraped.
func (o *Orders) Metrics() prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		t := o.Ledger.Table()
		for i, r := range t.Replicas {
			out.Flag(drainedDesc, o.Ledger.Drained(i), r.Name, t.Variants[r.Variant].Name)
		}
	}, drainedDesc)
}

// drainReplica answers POST /admin/replicas/NAME/drain and /undrain.
func (o *Orders) drainReplica(drained bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		replica, ok := o.replica(c)
		if !ok {
			return
		}
		o.Ledger.SetDrained(replica, drained) // until a restart, whatever probes find
		o.Log.Info("replica order", "replica", o.Ledger.Table().Replicas[replica].Name, "drained", drained, "by", By)
		c.JSON(http.StatusOK, o.Overview.Status().Replicas[replica])
	}
}

// policyRequest is the body of an order about policies.
type policyRequest struct {
	Policy string  `json:"policy"`
	Share  float64 `json:"share"`
	// Reason promotes whatever the policy's stored evaluation says.
	Reason string `json:"reason"`
}

// orderPolicy answers POST /admin/policy/ORDER: the policies as they are then.
func (o *Orders) orderPolicy(c *gin.Context) {
	var p policyRequest
	if err := body(c, &p); err != nil {
		o.Fail(c, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_order", Message: "cannot read the order: " + err.Error()})
		return
	}
	note, err := o.OrderPolicy(c.Param("order"), p.Policy, p.Share, p.Reason)
	var known trial.OrderError
	switch {
	case errors.As(err, &known):
		o.Fail(c, known.Status, wire.Error{Type: wire.InvalidRequest, Code: wire.Optional(known.Code), Message: known.Error()})
	case err != nil:
		o.Fail(c, http.StatusUnprocessableEntity, wire.Error{Type: wire.InvalidRequest, Code: "policy_refused", Message: err.Error()})
	default:
		policies := o.Trials.Policies()
		policies.Note = note
		c.JSON(http.StatusOK, policies)
	}
}

// maxOrder bounds the body of an order, in bytes.
const maxOrder = 64 << 10

// body reads the body of an order, strictly; none is all zero.
func body(c *gin.Context, to any) error {
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxOrder))
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		err = wire.Decode(text, to, true)
	}
	return err
}

// revokeLease answers DELETE /admin/leases/ID.
func (o *Orders) revokeLease(c *gin.Context) {
	left := o.Leases.Revoke(func(_, id string) bool { return id == c.Param("lease") }, By)
	if left.Revoked == 0 {
		o.Fail(c, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "lease_not_found", Message: "there is no such lease; it may have ended or expired"})
		return
	}
	c.JSON(http.StatusOK, left)
}

// revokeLeases answers DELETE /admin/leases?key=NAME (an empty name is of those without
// a key) and ?all=true.
func (o *Orders) revokeLeases(c *gin.Context) {
	names, byKey := c.Request.URL.Query()["key"]
	all := c.Query("all") == "true"
	if byKey == all {
		o.Fail(c, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "missing_choice", Message: "which leases? Want ?key=NAME, with an empty name for those without a key, or ?all=true"})
		return
	}
	c.JSON(http.StatusOK, o.Leases.Revoke(func(key, _ string) bool { return all || slices.Contains(names, key) }, By))
}
