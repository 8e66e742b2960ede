package failover

import (
	"encoding/json"

	"gearshift/router/failover"
	"gearshift/serving/control/statefile"
)

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

// state returns what the file is to have.
func (m *Module) state() State {
	return State{m.controller.State(), m.epoch.UnixNano(), m.engines.Sleeps()}
}

// newSaver starts a saver; nil without a file.
func newSaver(m *Module) *statefile.Saver[savedState] {
	if m.file == nil {
		return nil
	}
	return statefile.NewSaver(func(x savedState) {
		// A disk that fails must not keep applications from being recovered.
		if err := m.save(x.State); err != nil {
			m.metrics.unsaved.Inc()
			m.log.Error("the failover state is not saved; orders are carried out all the same", "error", err)
		}
		m.engines.Do(func() { m.saved = max(m.saved, x.orders) })
	})
}

// keep has the state as it is now be written. Orders that have been given wait for it.
func (m *Module) keep() {
	if m.saver != nil {
		m.saver.Keep(savedState{m.state(), m.given})
	}
}

// save writes the state.
func (m *Module) save(state State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return m.file.Save(text)
}
