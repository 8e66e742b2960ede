package rollout

import (
	"gearshift/router/fleet"
	"gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/serving/work"
)

// engineSide is what the controller asks of engines. It implements [rollout.Engines].
type engineSide struct{ *Module }

// Name implements [rollout.Engines].
func (m engineSide) Name(r int, model *rollout.Model, version string) {
	m.options.Names[r].Set(m.nameOf(r, model.Version, version))
}

// Use implements [rollout.Engines]: the part of the requests that the host's replicas work on at a time that
// they have, or the part of its processors that an engine says is busy, whichever is more.
func (m engineSide) Use(host int, counted func(replica int) bool) (share float64) {
	has, slots := 0, 0
	for _, r := range m.table.ReplicasOn(host) {
		has += m.ledger.InFlightOn(r)
		if m.ledger.Placed(r) != fleet.Up {
			continue
		}
		if counted(r) {
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

// Ended implements [serving.Watcher]. Failures are counted as they happen, also where another replica answers in the end;
// the time of an answer counts if it was given at the first attempt.
func (m *Module) Ended(w *work.Work, r work.Result) {
	if r.Outcome == work.Completed && w.Attempts <= 1 {
		m.controller.Answered(w.Replica, r.Latency-w.Waited)
	}
}
