package app

import (
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// newBusy makes the measurement of how busy hosts are.
func newBusy(s *scenario.Scenario, l *fleet.Ledger) *signals.Busy {
	o := signals.BusyOptions{Takes: s.HostTime()}
	for _, r := range l.Table().Replicas {
		slots := s.Engine.MaxSequences
		if r.Limit > 0 {
			slots = min(slots, r.Limit)
		}
		o.AtOnce = append(o.AtOnce, slots)
	}
	return signals.NewBusy(l, o)
}
