package trial

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"gearshift/router"
)

// The orders about policies.
const (
	orderShadow   = "shadow"
	orderCanary   = "canary"
	orderPromote  = "promote"
	orderRollback = "rollback"
	orderEnd      = "end of the trial"
)

// Who orders something here: an operator, or the comparison of a policy on trial.
const (
	byAdmin = "admin"
	byTrial = "trial"
)

// Order is what was done to the policies.
type Order struct {
	Order  string  `json:"order"`
	Policy string  `json:"policy"`
	By     string  `json:"by"`
	Why    string  `json:"why,omitempty"`
	AgoS   float64 `json:"ago_s"`
}

// OrderError is an order that cannot be carried out as things are, with the status and the code
// of the answer to it.
type OrderError struct {
	Status int
	Code   string
	error
}

// Unavailable returns the error of an order that the source of policies cannot take now.
func Unavailable(err error) OrderError {
	return OrderError{http.StatusServiceUnavailable, "store_away", err}
}

// Unwrap returns the cause.
func (e OrderError) Unwrap() error { return e.error }

var errFixed = errors.New("the router's policy cannot be changed")

// Order carries out an order about policies: shadow and canary put one on
// trial, promote puts one in charge (the one on trial if none is named), rollback
// ends the trial or, without one, puts the previous policy back in charge.
// The note says what else the operator should know. Calls must come one at a time.
func (t *Trials) Order(order, ref string, share float64, reason string) (note string, err error) {
	if err := t.Changeable(); err != nil {
		return "", err
	}
	switch order {
	case orderShadow:
		return "", t.try(order, ref, 0)
	case orderCanary:
		if !(share > 0 && share <= 1) {
			return "", OrderError{http.StatusBadRequest, "invalid_share", fmt.Errorf("share %v; want a part of the requests, above 0 and at most 1", share)}
		}
		return "", t.try(order, ref, share)
	case orderPromote:
		return t.promote(ref, reason)
	case orderRollback:
		return t.rollBack(ref)
	}
	return "", OrderError{http.StatusNotFound, "unknown_order", fmt.Errorf("there is no order %q; there are %s, %s, %s and %s", order, orderShadow, orderCanary, orderPromote, orderRollback)}
}

// Changeable is an [OrderError] if the policies cannot be changed by orders.
func (t *Trials) Changeable() error {
	if t.options.Source == nil || t.options.Policies == nil {
		return OrderError{http.StatusNotImplemented, "no_policies", errFixed}
	}
	return nil
}

// meant is the policy that an order is about: the one on trial if the order names none,
// or that one by its name alone.
func (t *Trials) meant(ref, to string) (router.Policy, error) {
	now, ok := t.options.Policies.Trial()
	name, _, _ := strings.Cut(now.Policy, "@")
	switch {
	case ok && (ref == "" || strings.TrimPrefix(ref, "store:") == name):
		ref = now.Policy
	case ref == "":
		return nil, noTrial("name the policy to " + to)
	}
	return t.options.Source.Policy(ref)
}

// try puts a policy on trial: the one named, or with another share the one that is.
func (t *Trials) try(order, ref string, share float64) error {
	p, err := t.meant(ref, "try")
	if err != nil {
		return err
	}
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	if err := t.options.Policies.Try(p, share); err != nil {
		return err
	}
	t.record.begin(t.options.Clock())
	why := ""
	if order == orderCanary {
		why = fmt.Sprintf("for %v of the requests", share)
	}
	t.ordered(Order{Order: order, Policy: p.Name(), By: byAdmin, Why: why})
	return nil
}

func noTrial(want string) error {
	return OrderError{http.StatusConflict, "no_trial", fmt.Errorf("%w; %s", router.ErrNoTrial, want)}
}

// promote puts a policy in charge that its evaluation, or the reason, warrants, and
// has the source record it.
func (t *Trials) promote(ref, reason string) (note string, err error) {
	p, err := t.meant(ref, "promote")
	if err != nil {
		return "", err
	}
	var known OrderError
	if err := t.options.Source.Admit(p.Name(), reason); errors.As(err, &known) {
		return "", known
	} else if err != nil {
		return "", OrderError{http.StatusConflict, "not_admitted", err}
	}
	t.record.mu.Lock()
	switch now, ok := t.options.Policies.Trial(); {
	case ok && now.Policy == p.Name():
		err = t.options.Policies.Promote()
		t.record.on.Store(false)
	case ref == "": // it may have ended for being worse
		err = noTrial("it has ended meanwhile")
	default:
		err = t.setPolicy(p)
	}
	if err == nil {
		t.ordered(Order{Order: orderPromote, Policy: p.Name(), By: byAdmin, Why: reason})
	}
	t.record.mu.Unlock()
	if err != nil {
		return "", err
	}
	return t.remembered(p.Name(), t.options.Source.Record(p.Name(), reason)), nil
}

// remembered is a note where the store could not record what is in charge, by which a
// restart routes. That it could not is no reason to undo the order.
func (t *Trials) remembered(name string, err error) (note string) {
	if err != nil {
		note = fmt.Sprintf("%s routes until the store is read again, as at a restart: %v", t.options.InCharge(), err)
		t.options.Log.Warn("the store does not remember the order", "policy", name, "error", err)
	}
	return note
}

// rollBack ends the trial, or else puts the earlier policy back in charge. A ref
// must be the policy that this takes away, so that a late order does no harm.
func (t *Trials) rollBack(ref string) (note string, err error) {
	now, onTrial := t.options.Policies.Trial()
	goes := t.options.InCharge()
	if onTrial {
		goes = now.Policy
	}
	if ref != "" && !sameRef(ref, goes) {
		return "", OrderError{http.StatusConflict, "not_that_policy", fmt.Errorf("a rollback would take away %s, not %s", goes, ref)}
	}
	earlier, _ := t.options.Policies.Earlier()
	if err := t.takeAway(goes, onTrial); err != nil || onTrial {
		return "", err
	}
	return t.remembered(earlier, t.options.Source.Restore(earlier)), nil
}

// takeAway ends the trial, or puts the earlier policy back in charge.
func (t *Trials) takeAway(goes string, onTrial bool) error {
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	if onTrial {
		if !t.endTrial(byAdmin, "") {
			return noTrial("it has ended meanwhile")
		}
		return nil
	}
	if err := t.options.Policies.Rollback(); err != nil {
		return OrderError{http.StatusConflict, "no_earlier_policy", err}
	}
	t.ordered(Order{Order: orderRollback, Policy: goes, By: byAdmin})
	return nil
}

// sameRef reports whether a reference, as a person writes it, is that of the policy.
func sameRef(ref, name string) bool {
	ref = strings.TrimPrefix(ref, "store:")
	return name == ref || strings.HasPrefix(name, ref+"@") || strings.HasPrefix(name, ref+":")
}
