package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"gearshift/router/control"
	"gearshift/serving/wire"
)

// By is who wants something done that an operator has ordered, for the log.
const By = "admin"

// Operations are what the server does at an operator's order. Values that are of type any
// are answered as JSON. They are called from any goroutine.
type Operations interface {
	// Status is what the server has done so far, and how the fleet is.
	Status() any
	// Replicas and Replica are all replicas, and one of them.
	Replicas() any
	Replica(replica int) any
	// FindReplica is the index of the replica of that name, or what to answer.
	FindReplica(name string) (int, *wire.Error)
	// DrainReplica keeps new requests away from the replica, or lets them in again.
	DrainReplica(replica int, drained bool)
	// OrderEngine has the replica's engine brought to where the verb leads. It reports
	// whether anything is to be done. Level is that of a sleep.
	OrderEngine(replica int, v control.Verb, level int) (begun bool, err error)
	// WaitEngine returns once nothing is being done about the replica, with why its order
	// was not followed; ended is false if the context was over before that.
	WaitEngine(ctx context.Context, replica int) (ended bool, err error)
	// Policies are the policies, with a note about the order just carried out.
	Policies(note string) any
	// OrderPolicy carries out an order about policies.
	OrderPolicy(order, policy string, share float64, reason string) (note string, err error)
	// Leases are those that are held, after so many were revoked.
	Leases(revoked int) any
	// RevokeLeases ends the leases that f reports true of, and returns how many there were.
	RevokeLeases(f func(key, id string) bool) int
	// Reload reads the files again.
	Reload(by string) (any, error)
	// Drain makes the server end, and returns how many requests are in flight.
	Drain() (inFlight int)
}

// Orders are the endpoints of the admin API.
type Orders struct {
	operations Operations
	fail       func(c *gin.Context, status int, e wire.Error)
	log        *slog.Logger
}

// NewOrders makes the endpoints of what operators may order.
func NewOrders(x Operations, fail func(c *gin.Context, status int, e wire.Error), log *slog.Logger) *Orders {
	return &Orders{operations: x, fail: fail, log: log}
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
		{http.MethodGet, "/admin/status", o.show(func() any { return o.operations.Status() }), ""},
		{http.MethodPost, "/admin/drain", o.drain, ""},
		{http.MethodPost, "/admin/reload", o.reload, ""},
		{http.MethodGet, "/admin/replicas", o.show(func() any { return o.operations.Replicas() }), ""},
		{http.MethodPost, "/admin/replicas/{replica...}/drain", o.drainReplica(true), ""},
		{http.MethodPost, "/admin/replicas/{replica...}/undrain", o.drainReplica(false), ""},
		{http.MethodGet, "/admin/policy", o.show(func() any { return o.operations.Policies("") }), ""},
		{http.MethodPost, "/admin/policy/{order}", o.orderPolicy, ""},
		{http.MethodGet, "/admin/leases", o.show(func() any { return o.operations.Leases(0) }), ""},
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
	o.log.Info("drain ordered", "by", By)
	c.JSON(http.StatusAccepted, gin.H{"draining": true, "in_flight": o.operations.Drain()})
}

func (o *Orders) reload(c *gin.Context) {
	out, err := o.operations.Reload(By)
	if err != nil {
		o.fail(c, http.StatusUnprocessableEntity, wire.Error{
			Type: wire.InvalidRequest, Code: "reload_failed",
			Message: fmt.Sprintf("the last good state stays: %v", err),
		})
		return
	}
	c.JSON(http.StatusOK, out)
}

// drainReplica answers POST /admin/replicas/NAME/drain and /undrain.
func (o *Orders) drainReplica(drained bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		replica, fault := o.operations.FindReplica(strings.TrimPrefix(c.Param("replica"), "/"))
		if fault != nil {
			o.fail(c, http.StatusNotFound, *fault)
			return
		}
		o.operations.DrainReplica(replica, drained)
		c.JSON(http.StatusOK, o.operations.Replica(replica))
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
		o.fail(c, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_order", Message: "cannot read the order: " + err.Error()})
		return
	}
	note, err := o.operations.OrderPolicy(c.Param("order"), p.Policy, p.Share, p.Reason)
	var known interface {
		error
		HTTP() (status int, code string)
	}
	switch {
	case errors.As(err, &known):
		status, code := known.HTTP()
		o.fail(c, status, wire.Error{Type: wire.InvalidRequest, Code: wire.Optional(code), Message: known.Error()})
	case err != nil:
		o.fail(c, http.StatusUnprocessableEntity, wire.Error{Type: wire.InvalidRequest, Code: "policy_refused", Message: err.Error()})
	default:
		c.JSON(http.StatusOK, o.operations.Policies(note))
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
	n := o.operations.RevokeLeases(func(_, id string) bool { return id == c.Param("lease") })
	if n == 0 {
		o.fail(c, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "lease_not_found", Message: "there is no such lease; it may have ended or expired"})
		return
	}
	c.JSON(http.StatusOK, o.operations.Leases(n))
}

// revokeLeases answers DELETE /admin/leases?key=NAME (an empty name is of those without
// a key) and ?all=true.
func (o *Orders) revokeLeases(c *gin.Context) {
	names, byKey := c.Request.URL.Query()["key"]
	all := c.Query("all") == "true"
	if byKey == all {
		o.fail(c, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "missing_choice", Message: "which leases? Want ?key=NAME, with an empty name for those without a key, or ?all=true"})
		return
	}
	c.JSON(http.StatusOK, o.operations.Leases(o.operations.RevokeLeases(func(key, _ string) bool { return all || slices.Contains(names, key) })))
}
