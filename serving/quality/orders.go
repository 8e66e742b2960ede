package quality

import (
	"errors"
	"fmt"
)

// Source has the stored predictors. Its methods are called one at a time.
type Source interface {
	// Load returns the predictor that a reference names, bound to the fleet.
	Load(ref string) (*Loaded, error)
	// Admit returns an error unless its evaluation, or the reason, warrants that the predictor be in
	// charge.
	Admit(l *Loaded, reason string) error
	// Record has a restart predict by what was promoted, and Restore by what a rollback returned to.
	Record(l *Loaded, reason string) error
	Restore(l *Loaded) error
}

// Why orders are refused.
var (
	errNoTrial   = errors.New("no predictor is on trial")
	errNoEarlier = errors.New("no predictor is on trial, and none was in charge before")
)

// Order carries out an order: shadow and canary put a predictor on trial, promote puts one in charge
// (the one on trial if none is named), end ends the trial, and rollback does so or, without one, puts
// the predictor back in charge that was before. The note says what else the operator should know. Calls
// must come one at a time.
func (p *Predictors) Order(from Source, order, ref string, share float64, reason string) (note string, err error) {
	switch order {
	case "shadow":
		share = 0
	case "canary":
		if !(share > 0 && share <= 1) {
			return "", fmt.Errorf("share %v; want a part of the requests, above 0 and at most 1", share)
		}
	case "promote":
		return p.promote(from, ref, reason)
	case "rollback":
		return p.rollBack(from)
	case "end":
		if !p.EndTrial() {
			err = errNoTrial
		}
		return "", err
	default:
		return "", fmt.Errorf("there is no order %q; there are shadow, canary, end, promote and rollback", order)
	}
	l, err := p.meant(from, ref)
	if err != nil {
		return "", err
	}
	return "", p.Try(l, share)
}

// meant returns the predictor that an order is about: the one on trial if the order names none.
func (p *Predictors) meant(from Source, ref string) (*Loaded, error) {
	if ref != "" {
		return from.Load(ref)
	}
	if l, _ := p.OnTrial(); l != nil {
		return l, nil
	}
	return nil, errNoTrial
}

// promote puts a predictor in charge, and ends its trial.
func (p *Predictors) promote(from Source, ref, reason string) (note string, err error) {
	l, err := p.meant(from, ref)
	if err == nil {
		err = from.Admit(l, reason)
	}
	if err != nil {
		return "", err
	}
	if tried, _ := p.OnTrial(); tried != nil && tried.Name == l.Name {
		p.EndTrial()
	}
	p.Charge(l)
	return remembered(l.Name, from.Record(l, reason)), nil
}

// rollBack ends the trial, or puts the earlier predictor back in charge.
func (p *Predictors) rollBack(from Source) (note string, err error) {
	if p.EndTrial() {
		return "", nil
	}
	l := p.Rollback()
	if l == nil {
		return "", errNoEarlier
	}
	return remembered(l.Name, from.Restore(l)), nil
}

// remembered is a note where a restart would not predict by what is in charge.
func remembered(name string, err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s predicts until a restart: %v", name, err)
}
