package router

import (
	"errors"
	"time"

	"gearshift/router/fleet"
)

// Decision takes one request at a time through the pipeline, in two steps:
// [Decision.Look] brings a view up to date, and [Decision.Take] or [Decision.Place]
// completes what is decided on it, and takes the place. [Core.Route] is both, around
// a policy. A simulator, whose caller decides in between, has a Decision of its own.
// It is used by one goroutine at a time.
type Decision struct {
	*rules
	ledger  *fleet.Ledger
	held    fleet.Holder // asked for what is held before each view; nil if others do that
	lineup  *lineup
	policy  *seat // in charge of this request
	view    fleet.View
	scratch []float32
}

// NewDecision makes a Decision without a policy. It needs a Balancer and, for the
// table, a Ledger; Fallback and Seed are not used.
func NewDecision(c Config) (*Decision, error) {
	if c.Ledger == nil || c.Balancer == nil {
		return nil, errors.New("cannot make a decision: it needs a ledger and a balancer")
	}
	rules := c.rules()
	return &Decision{rules: &rules, ledger: c.Ledger, lineup: &lineup{gate: c.Gate}}, nil
}

// On has the Decision look at this ledger, which is told what requests hold before
// each view.
func (d *Decision) On(l *fleet.Ledger, held fleet.Holder) { d.ledger, d.held = l, held }

// CopyFrom makes d decide as o does, on another ledger, and copies its view.
func (d *Decision) CopyFrom(o *Decision, l *fleet.Ledger, held fleet.Holder) {
	d.rules, d.lineup = o.rules, o.lineup
	d.On(l, held)
	d.view.CopyFrom(&o.view)
}

// View is what Look has seen: what a policy may know. Read-only.
func (d *Decision) View() *fleet.View { return &d.view }

// Look brings the view up to date for the request. Of a large fleet it is a sample,
// drawn by the number given, unless whole is set or nothing of that has a place. The
// error is [Core.Route]'s for a request that cannot be begun now; the view is up to
// date also then, but for the forecasts.
func (d *Decision) Look(r *fleet.Request, now time.Duration, sample uint64, whole bool) error {
	d.sample(r, sample)
	if whole {
		d.view.Whole()
	}
	return d.look(-1, r, now)
}

// Take routes the request of the last Look to a variant that is available in the view,
// as Route does if its policy decides so: raised to the quality floor, on the
// balancer's replica, degraded if that has no room by the gate. The caller must end
// the lease.
func (d *Decision) Take(variant int, r *fleet.Request, random uint64) (Choice, error) {
	choice := Choice{Variant: variant, Replica: -1, Propensity: 1}
	d.raise(&choice, r)
	d.settle(&choice, r, random)
	return d.taken(choice, r)
}

// Place is Take for a replica that is available in the view, as of a policy that is a
// [Placer].
func (d *Decision) Place(replica int, r *fleet.Request, random uint64) (Choice, error) {
	choice := Choice{Variant: d.table.Replicas[replica].Variant, Replica: replica, Propensity: 1}
	if d.raise(&choice, r); choice.Replica < 0 {
		d.settle(&choice, r, random)
	}
	return d.taken(choice, r)
}

func (d *Decision) taken(choice Choice, r *fleet.Request) (Choice, error) {
	if choice.Replica < 0 || !d.take(&choice, -1, r, true) {
		return Choice{}, ErrSaturated
	}
	return choice, nil
}

// take puts the choice where it has room by the gate, and takes the place. It reports
// false if another has been there since the view, unless it is the last attempt: a
// place that is there is better than none.
func (d *Decision) take(choice *Choice, pinned int, r *fleet.Request, last bool) bool {
	d.admit(choice, pinned, r)
	lease, ok := d.ledger.BeginOn(&d.view, choice.Replica, r.Task)
	if !ok && last {
		lease, ok = d.ledger.Begin(choice.Replica, r.Task)
	}
	if !ok {
		return false
	}
	choice.Lease = lease
	if len(d.view.Forecasts) > 0 {
		choice.Pace = d.view.Forecasts[choice.Replica].Pace
	}
	return true
}

// sample makes the view one of a sample, but for a request of a session, whose
// replica may be on any host.
func (d *Decision) sample(r *fleet.Request, random uint64) {
	if d.view.Sample(d.table, random); r.Session != 0 {
		d.view.Whole()
	}
}

// look brings the view up to date. The error says why no replica can take
// the request. A sample with no place for it makes way for the whole fleet.
func (d *Decision) look(pinned int, r *fleet.Request, now time.Duration) error {
	d.read(r, now)
	err := d.survey(pinned, r)
	if err != nil && d.view.Sampled() {
		d.view.Whole()
		if d.held != nil {
			d.read(r, now)
		}
		err = d.survey(pinned, r)
	}
	return err
}

// read fills the view from the ledger, which is told first what is held, if anybody
// is to be asked.
func (d *Decision) read(r *fleet.Request, now time.Duration) {
	if d.held != nil {
		d.ledger.HoldEach(d.view.Replicas(), d.held)
	}
	d.ledger.View(now, &d.view)
	d.view.Restrict(r)
}

// survey fills in the view's forecasts, unless nothing of it can take the request.
func (d *Decision) survey(pinned int, r *fleet.Request) error {
	if err := d.hopeless(pinned, r); err != nil {
		return err
	}
	if d.forecaster != nil {
		d.forecaster.Forecast(&d.view, r)
	}
	if d.late(pinned, r) {
		return ErrLate
	}
	return nil
}

// hopeless says why no replica can take the request, or returns nil if one
// can. A pinned variant below zero stands for any that reaches the quality floor.
func (d *Decision) hopeless(pinned int, r *fleet.Request) error {
	up := false
	for _, i := range d.view.Replicas() {
		if pinned >= 0 && d.table.Replicas[i].Variant != pinned || !d.table.Serves(r, i) {
			continue
		}
		if d.view.Available(i) {
			return nil
		}
		up = up || !d.view.Down[i]
	}
	if up {
		return ErrSaturated
	}
	return ErrNoReplica
}
