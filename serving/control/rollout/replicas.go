package rollout

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/rollout"
	"gearshift/router/signals"
)

// order is what a replica's lifecycle is to do, or does.
type order struct {
	action control.Action
	want   fleet.State
	given  bool // the lifecycle has it
	open   bool // it has not ended
}

// replicas is the fleet as the controller sees it. It implements [rollout.Fleet].
type replicas struct{ *Module }

var _ rollout.Fleet = replicas{}

// Act implements [control.Actuator]. The lifecycle gets the order within the module's Wake.
func (m replicas) Act(a control.Action) error {
	o := &m.orders[a.Replica]
	if o.open {
		return errors.New("another order has not ended")
	}
	*o = order{action: a, want: a.Verb.State(), open: true}
	return nil
}

// State implements [rollout.Fleet].
func (m replicas) State(r int) fleet.State { return m.ledger.State(r) }

// InFlight implements [rollout.Fleet].
func (m replicas) InFlight(r int) int { return m.ledger.InFlightOn(r) }

// Fits implements [rollout.Fleet].
func (m replicas) Fits(r int) bool { return m.engines.Fits(r) }

// Busy implements [rollout.Fleet].
func (m replicas) Busy(host int) float64 { return m.busy[host].mean }

// Hold implements [rollout.Fleet].
func (m replicas) Hold(r int, version string) {
	for _, x := range m.locations {
		if x.replicas[0] == r || x.replicas[1] == r {
			m.options.Names[r].Set(m.nameOf(r, m.options.System.Models[x.model].Version, version))
		}
	}
	m.changed = true
}

// Weigh implements [rollout.Fleet].
func (m replicas) Weigh(r int, part float64) {
	m.parts[r] = part
	m.split()
}

// Count implements [rollout.Fleet].
func (m replicas) Count(r int) rollout.Count { return m.counts[r].get() }

// Holds reports whether the replica is of a model whose versions change, so that nothing else may
// unload it.
func (m *Module) Holds(replica int) bool {
	for _, x := range m.locations {
		if x.replicas[0] == replica || x.replicas[1] == replica {
			return true
		}
	}
	return false
}

// follow gives lifecycles their orders and reports to the controller how they have ended. It reports
// whether any has.
func (m *Module) follow(now time.Duration) (news bool) {
	nudge := false
	for r := range m.orders {
		o := &m.orders[r]
		if !o.open {
			continue
		}
		status, placed := m.engines.LifecycleOf(r), m.engines.Placed(r)
		switch {
		case status.Doing == "" && placed == o.want && (o.given || o.want == fleet.Cold):
			m.ended(o, nil, now)
			news = true
		case o.given && status.Doing != "":
		case o.given:
			err := status.Err
			if err == nil {
				err = fmt.Errorf("it is %v", placed)
			}
			m.ended(o, err, now)
			news = true
		default:
			if err := m.engines.Want(r, o.want); err != nil {
				m.ended(o, err, now)
				news = true
				continue
			}
			o.given, nudge = true, true
		}
	}
	if nudge { // the lifecycles come before this controller
		m.engines.Nudge()
	}
	return news
}

func (m *Module) ended(o *order, err error, now time.Duration) {
	o.open = false
	a := o.action
	e := control.Event{At: now, Kind: a.Verb.Done(), Replica: a.Replica, Host: m.table.Replicas[a.Replica].Host, Action: a}
	if err != nil {
		e.Kind, e.Reason = control.ActionFailed, err.Error()
	}
	m.controller.Observe(e)
}

// busy is how busy a host has been lately.
type busy struct {
	mean float64
	at   time.Duration
}

// remembered is over how long the utilisation of a host is smoothed.
const remembered = 10 * time.Second

// sample looks at how busy hosts are.
func (m *Module) sample(now time.Duration) {
	for h := range m.busy {
		b := &m.busy[h]
		passed := (now - b.at).Seconds()
		// At first it is a plain mean: what was before the router began is not known.
		b.mean += (m.use(h) - b.mean) * max(1-math.Exp(-passed/remembered.Seconds()), min(1, passed/max(now.Seconds(), 1e-9)))
		b.at = now
	}
}

// use is how busy the host is now: the part of the requests that its replicas work on at a time that
// they have, or the part of its processors that an engine says is busy, whichever is more.
func (m *Module) use(host int) (share float64) {
	has, slots := 0, 0
	for _, r := range m.table.ReplicasOn(host) {
		has += m.ledger.InFlightOn(r)
		if m.engines.Placed(r) != fleet.Up {
			continue
		}
		if m.counted(r) {
			slots += m.options.Slots[r]
		}
		if k := m.reported(r); k.Source > signals.StandIn {
			share = max(share, k.Load.CPU)
		}
	}
	if slots > 0 {
		share = max(share, float64(has)/float64(slots))
	}
	return min(1, share)
}

// counted reports whether the replica counts towards what its host can do at a time: of two of one
// location only the one that answers more does.
func (m *Module) counted(r int) bool {
	return m.options.Names[r] == nil || m.parts[r] > 0.5
}
