package serving

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/serving/wire"
)

// The orders about policies.
const (
	orderShadow   = "shadow"
	orderCanary   = "canary"
	orderPromote  = "promote"
	orderRollback = "rollback"
	orderEnd      = "end of the trial"
)

// PolicyOrder is what was done to the policies.
type PolicyOrder struct {
	Order  string  `json:"order"`
	Policy string  `json:"policy"`
	By     string  `json:"by"`
	Why    string  `json:"why,omitempty"`
	AgoS   float64 `json:"ago_s"`
}

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
	var o orderError
	switch {
	case errors.As(err, &o):
		s.fail(c, o.status, wire.Error{Type: wire.InvalidRequest, Code: wire.Optional(o.code), Message: o.Error()})
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

// orderError is an order that does not fit how things stand.
type orderError struct {
	status int
	code   string
	error
}

// OrderPolicy carries out an order about policies: shadow and canary put one on
// trial, promote puts one in charge (the one on trial if none is named), rollback
// ends the trial or, without one, puts the policy back in charge that was before.
// The note tells what else the operator should know.
func (s *Server) OrderPolicy(order, ref string, share float64, reason string) (note string, err error) {
	if s.steward == nil || s.seats == nil {
		return "", orderError{http.StatusNotImplemented, "no_policies", errNoSeats}
	}
	s.reloading.Lock() // orders come one at a time, and reloads
	defer s.reloading.Unlock()
	switch order {
	case orderShadow:
		return "", s.try(order, ref, 0)
	case orderCanary:
		if !(share > 0 && share <= 1) {
			return "", orderError{http.StatusBadRequest, "invalid_share", fmt.Errorf("share %v; want a part of the requests, above 0 and at most 1", share)}
		}
		return "", s.try(order, ref, share)
	case orderPromote:
		return s.promote(ref, reason)
	case orderRollback:
		return s.rollBack(ref)
	}
	return "", orderError{http.StatusNotFound, "unknown_order", fmt.Errorf("there is no order %q; there are %s, %s, %s and %s", order, orderShadow, orderCanary, orderPromote, orderRollback)}
}

// meant is the policy that an order is about: the one on trial if the order names none,
// or that one by its name alone.
func (s *Server) meant(ref, to string) (router.Policy, error) {
	trial, ok := s.seats.Trial()
	name, _, _ := strings.Cut(trial.Policy, "@")
	switch {
	case ok && (ref == "" || strings.TrimPrefix(ref, "store:") == name):
		ref = trial.Policy
	case ref == "":
		return nil, noTrial("name the policy to " + to)
	}
	return s.steward.Policy(ref)
}

// try puts a policy on trial: the one named, or with another share the one that is.
func (s *Server) try(order, ref string, share float64) error {
	p, err := s.meant(ref, "try")
	if err != nil {
		return err
	}
	s.trial.mu.Lock()
	defer s.trial.mu.Unlock()
	if err := s.seats.Try(p, share); err != nil {
		return err
	}
	s.trial.begin(s.clock())
	why := ""
	if order == orderCanary {
		why = fmt.Sprintf("for %v of the requests", share)
	}
	s.ordered(PolicyOrder{Order: order, Policy: p.Name(), By: byAdmin, Why: why})
	return nil
}

func noTrial(want string) error {
	return orderError{http.StatusConflict, "no_trial", fmt.Errorf("%w; %s", router.ErrNoTrial, want)}
}

// promote puts a policy in charge that its evaluation, or the reason, warrants, and
// has the store remember it.
func (s *Server) promote(ref, reason string) (note string, err error) {
	p, err := s.meant(ref, "promote")
	if err != nil {
		return "", err
	}
	if err := s.steward.Admit(p.Name(), reason); err != nil {
		return "", orderError{http.StatusConflict, "not_admitted", err}
	}
	s.trial.mu.Lock()
	switch trial, ok := s.seats.Trial(); {
	case ok && trial.Policy == p.Name():
		err = s.seats.Promote()
		s.trial.on.Store(false)
	case ref == "": // it may have ended for being worse
		err = noTrial("it has ended meanwhile")
	default:
		err = s.setPolicy(p)
	}
	if err == nil {
		s.ordered(PolicyOrder{Order: orderPromote, Policy: p.Name(), By: byAdmin, Why: reason})
	}
	s.trial.mu.Unlock()
	if err != nil {
		return "", err
	}
	return s.remembered(p.Name(), s.steward.Record(p.Name(), reason)), nil
}

// remembered is a note where the store could not be told what is in charge, by which a
// restart routes. That it could not is no reason to undo the order.
func (s *Server) remembered(name string, err error) (note string) {
	if err != nil {
		note = fmt.Sprintf("%s routes until a restart: %v", s.router.PolicyName(), err)
		s.log.Warn("the store does not remember the order", "policy", name, "error", err)
	}
	return note
}

// rollBack ends the trial, or else puts the earlier policy back in charge. A ref
// must be the policy that this takes away, so that a late order harms nobody.
func (s *Server) rollBack(ref string) (note string, err error) {
	trial, onTrial := s.seats.Trial()
	goes := s.router.PolicyName()
	if onTrial {
		goes = trial.Policy
	}
	if ref != "" && !sameRef(ref, goes) {
		return "", orderError{http.StatusConflict, "not_that_policy", fmt.Errorf("a rollback would take away %s, not %s", goes, ref)}
	}
	earlier, _ := s.seats.Earlier()
	if err := s.takeAway(goes, onTrial); err != nil || onTrial {
		return "", err
	}
	return s.remembered(earlier, s.steward.Restore(earlier)), nil
}

// takeAway ends the trial, or puts the earlier policy back in charge.
func (s *Server) takeAway(goes string, onTrial bool) error {
	s.trial.mu.Lock()
	defer s.trial.mu.Unlock()
	if onTrial {
		if !s.endTrial(byAdmin, "") {
			return noTrial("it has ended meanwhile")
		}
		return nil
	}
	if err := s.seats.Rollback(); err != nil {
		return orderError{http.StatusConflict, "no_earlier_policy", err}
	}
	s.ordered(PolicyOrder{Order: orderRollback, Policy: goes, By: byAdmin})
	return nil
}

// sameRef says whether a reference, as a person writes it, is that of the policy.
func sameRef(ref, name string) bool {
	ref = strings.TrimPrefix(ref, "store:")
	return name == ref || strings.HasPrefix(name, ref+"@") || strings.HasPrefix(name, ref+":")
}
