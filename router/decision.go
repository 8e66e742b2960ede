package router

import (
	"errors"
	"time"

	"gearshift/router/fleet"
)

// Decision takes one request at a time through the pipeline, in two steps. [Decision.Look]
// brings a view up to date; [Decision.Take] or [Decision.Place] completes what is decided on
// it, and takes the place. [Core.Route] does both, with a policy in between. A simulator,
// whose caller decides in between, has a Decision of its own. A Decision is used by one
// goroutine at a time.
type Decision struct {
	*rules
	ledger   *fleet.Ledger
	held     fleet.Holder // asked for the tokens held before each view; nil if the ledger is kept up to date otherwise
	policies *policySet
	policy   *boundPolicy // decides this request
	view     fleet.View
	scratch  []float32
}

// NewDecision makes a Decision without a policy. It needs a Balancer and, for its table, a
// Ledger. It does not use Fallback and Seed.
func NewDecision(c Config) (*Decision, error) {
	if c.Ledger == nil || c.Balancer == nil {
		return nil, errors.New("cannot make a decision: it needs a ledger and a balancer")
	}
	rules := c.rules()
	return &Decision{rules: &rules, ledger: c.Ledger, policies: &policySet{gate: c.Gate, forecaster: c.Forecaster}}, nil
}

// On makes the Decision look at the ledger l, into which it writes before each view the
// tokens that held reports.
func (d *Decision) On(l *fleet.Ledger, held fleet.Holder) { d.ledger, d.held = l, held }

// CopyFrom makes d decide as o does, on another ledger, and copies its view.
func (d *Decision) CopyFrom(o *Decision, l *fleet.Ledger, held fleet.Holder) {
	d.rules, d.policies = o.rules, o.policies
	d.On(l, held)
	d.view.CopyFrom(&o.view)
}

// View returns what Look has seen: what a policy may know. It is read-only.
func (d *Decision) View() *fleet.View { return &d.view }

// Look brings the view up to date for the request. The view of a large fleet is of a sample
// of hosts, drawn by the number sample, unless whole is set or no replica of the sample has
// a free place. If the request cannot begin now, Look returns an error of [Core.Route]; the
// view is up to date then too, except for the forecasts.
func (d *Decision) Look(r *fleet.Request, now time.Duration, sample uint64, whole bool) error {
	d.sample(r, sample)
	if whole {
		d.view.Whole()
	}
	return d.look(-1, r, now)
}

// Take routes the request of the last Look to a variant that is available in the view, like
// Route after its policy has chosen it: replaced by its class's first one under load, raised to the
// quality floor, on the balancer's replica, degraded if the gate sees no room there. The caller must
// end the lease.
func (d *Decision) Take(variant int, r *fleet.Request, random uint64) (Choice, error) {
	choice := Choice{Variant: variant, Replica: -1, Propensity: 1}
	if !d.ofClass(&choice, r) {
		d.raise(&choice, r)
	}
	d.settle(&choice, r, random)
	return d.taken(choice, r)
}

// Place is Take for a replica that is available in the view, like Route after a [Placer]
// has chosen it.
func (d *Decision) Place(replica int, r *fleet.Request, random uint64) (Choice, error) {
	choice := Choice{Variant: d.table.Replicas[replica].Variant, Replica: replica, Propensity: 1}
	if !d.ofClass(&choice, r) {
		d.raise(&choice, r)
	}
	if choice.Replica < 0 {
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

// take moves the choice to where the gate sees room, and takes the place. It reports false
// if another request has taken one on that host since the view. On the last attempt it
// takes the place nonetheless, if it is free: that is better than to refuse.
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

// sample makes the view one of a sample, except for a request of a session, whose replica
// may be on any host.
func (d *Decision) sample(r *fleet.Request, random uint64) {
	if d.view.SampleOf(d.ledger, random); r.Session != 0 {
		d.view.Whole()
	}
}

// look brings the view up to date, and returns an error if no replica can take the request.
// A sample without room for it is replaced by the whole fleet.
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

// read fills the view from the ledger, after it has written into that the tokens that are
// held, if d.held knows them.
func (d *Decision) read(r *fleet.Request, now time.Duration) {
	if d.held != nil {
		d.ledger.HoldEach(d.view.Replicas(), d.held)
	}
	d.ledger.View(now, &d.view)
	d.view.Restrict(r)
}

// survey fills in the view's forecasts. It returns an error if no replica of the view can
// take the request; then there may be no forecasts.
func (d *Decision) survey(pinned int, r *fleet.Request) error {
	if err := d.hopeless(pinned, r); err != nil {
		return err
	}
	if f := d.policies.forecaster; f != nil {
		f.Forecast(&d.view, r)
	}
	if d.late(pinned, r) {
		return ErrLate
	}
	return nil
}

// hopeless returns an error if no replica can take the request, by states and places alone.
// A pinned variant below zero stands for any that reaches the quality floor.
func (d *Decision) hopeless(pinned int, r *fleet.Request) error {
	up, asleep := false, false
	for _, i := range d.view.Replicas() {
		if pinned >= 0 && d.table.Replicas[i].Variant != pinned || !d.table.Serves(r, i) {
			continue
		}
		if d.view.Available(i) {
			return nil
		}
		up = up || !d.view.Down[i]
		if s := d.view.State(i); s != fleet.Up && s != fleet.Down && s != fleet.Absent {
			asleep = true
		}
	}
	switch {
	case up:
		return ErrSaturated
	case asleep:
		return ErrAsleep
	}
	return ErrNoReplica
}
