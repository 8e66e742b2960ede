package rollout

import (
	"math"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/rollout"
	"gearshift/router/signals"
)

// replicas is the fleet as the controller sees it. It implements [rollout.Fleet].
type replicas struct{ *Module }

var _ rollout.Fleet = replicas{}

// Act implements [control.Actuator].
func (m replicas) Act(a control.Action) error { return m.claims.Act(a) }

// State implements [rollout.Fleet]. What is not loaded on a host that is down is cold there too.
func (m replicas) State(r int) fleet.State {
	if m.ledger.Placed(r) == fleet.Cold {
		return fleet.Cold
	}
	return m.ledger.State(r)
}

// Lost implements [rollout.Fleet].
func (m replicas) Lost(host int) bool {
	return !slices.ContainsFunc(m.table.ReplicasOn(host), func(r int) bool { return m.ledger.State(r) != fleet.Down })
}

// InFlight implements [rollout.Fleet].
func (m replicas) InFlight(r int) int { return m.ledger.InFlightOn(r) }

// Fits implements [rollout.Fleet].
func (m replicas) Fits(r int) bool { return m.claims.Fits(r) }

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
