package serving

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/serving/trial"
	"gearshift/serving/wire"
)

// policyRequest is the body of an order about policies.
type policyRequest struct {
	Policy string  `json:"policy"`
	Share  float64 `json:"share"`
	// Reason promotes whatever the policy's stored evaluation says.
	Reason string `json:"reason"`
}

// orderPolicy answers POST /admin/policy/ORDER: the policies as they are then.
func (s *Server) orderPolicy(c *gin.Context) {
	var p policyRequest
	if fault := s.orderBody(c, &p); fault != nil {
		s.fail(c, fault.status, fault.Error)
		return
	}
	note, err := s.OrderPolicy(c.Param("order"), p.Policy, p.Share, p.Reason)
	var o interface {
		error
		HTTP() (status int, code string)
	}
	switch {
	case errors.As(err, &o):
		status, code := o.HTTP()
		s.fail(c, status, wire.Error{Type: wire.InvalidRequest, Code: wire.Optional(code), Message: o.Error()})
	case err != nil:
		s.fail(c, http.StatusUnprocessableEntity, wire.Error{Type: wire.InvalidRequest, Code: "policy_refused", Message: err.Error()})
	default:
		out := s.Policies()
		out.Note = note
		c.JSON(http.StatusOK, out)
	}
}

// maxOrder bounds the body of an order, in bytes.
const maxOrder = 64 << 10

// orderBody reads the body of an order, strictly; none is all zero.
func (s *Server) orderBody(c *gin.Context, to any) *refusal {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxOrder))
	if err == nil && len(bytes.TrimSpace(body)) > 0 {
		err = wire.Decode(body, to, true)
	}
	if err != nil {
		return bad(http.StatusBadRequest, "", "invalid_order", "cannot read the order: "+err.Error())
	}
	return nil
}

// OrderPolicy carries out an order about policies; see [trial.Trials.Order].
func (s *Server) OrderPolicy(order, ref string, share float64, reason string) (note string, err error) {
	s.reloading.Lock() // orders come one at a time, and reloads
	defer s.reloading.Unlock()
	return s.trials.Order(order, ref, share, reason)
}

// Policies reports which policy is in charge, which is on trial, and how they compare.
func (s *Server) Policies() trial.Policies { return s.trials.Policies() }

func (s *Server) listPolicies(c *gin.Context) { c.JSON(http.StatusOK, s.Policies()) }

// newTrials makes what carries out orders about policies.
func (s *Server) newTrials(o Options) *trial.Trials {
	objective := o.Objective
	if objective == nil {
		objective = func(string) string { return "" }
	}
	return trial.New(trial.Options{
		Table: s.table, InCharge: s.router.PolicyName, Policies: policySetOf(s.router), Source: s.source(),
		Objective: objective, Config: func() trial.Config { return s.settings().Trial }, Clock: s.clock, Log: s.log,
	})
}

// source is the reloader as the source of policies; nil without one.
func (s *Server) source() trial.Source {
	if s.reloader == nil {
		return nil
	}
	return s.reloader
}

// policySetOf is the router's policies, also of one within a [Recorder]; nil if they cannot
// be changed.
func policySetOf(r Router) trial.PolicySet {
	if recorder, ok := r.(*Recorder); ok {
		r = recorder.Router
	}
	p, _ := r.(trial.PolicySet)
	return p
}

// trialWatcher reports to the trials what routed requests have earned. Requests for a
// variant by name are no policy's.
type trialWatcher struct{ *trial.Trials }

// Ended implements [Watcher].
func (t trialWatcher) Ended(w *Work, r Result) {
	if r.Judged && w.Policy != router.Pinned {
		t.Trials.Ended(trial.Ended{Arrival: w.Request.Arrival, Trial: w.Trial, Reported: r.Told, Met: r.Met, Utility: r.Utility})
	}
}
