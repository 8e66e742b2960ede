package failover

import "gearshift/router/failover"

// savedState holds what the file has, and how many orders had been given by then, which wait for it.
type savedState struct {
	State
	orders uint64
}

// State holds what the file has of a run.
type State struct {
	failover.State
	// Zero is the wall clock's time, in Unix nanoseconds, when the clock of the run was zero. It is 0 in
	// files of versions that did not write it.
	Zero int64 `json:"zero"`
	// Sleeps are the levels at which engines sleep, by replica.
	Sleeps map[string]int `json:"sleeps,omitempty"`
}

// state returns what the file is to have, for which so many orders wait.
func (m *Module) state(orders uint64) savedState {
	return savedState{State{m.controller.State(), m.epoch.UnixNano(), m.engines.Sleeps()}, orders}
}

// written follows a write of the state. A router that stands by carries out no orders, and the one that acts saves.
func (m *Module) written(x savedState, err error) {
	if err != nil && m.engines.StandsBy() == nil { // a disk that fails must not keep applications from being recovered
		m.metrics.unsaved.Inc()
		m.log.Error("the failover state is not saved; orders are carried out all the same", "error", err)
	}
	m.engines.Do(func() { m.controller.Saved(x.orders) })
}
