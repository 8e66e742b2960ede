package failover

import (
	"encoding/json"

	"gearshift/router/failover"
	"gearshift/serving/statefile"
)

// savedState is a state, and how many orders had been given by then, which wait for it.
type savedState struct {
	state  failover.State
	orders uint64
}

// newSaver starts a saver; nil without a file.
func newSaver(m *Module) *statefile.Saver[savedState] {
	if m.file == nil {
		return nil
	}
	return statefile.NewSaver(func(x savedState) {
		// A disk that fails must not keep applications from being recovered.
		if err := m.save(x.state); err != nil {
			m.metrics.unsaved.Inc()
			m.log.Error("the failover state is not saved; orders are carried out all the same", "error", err)
		}
		m.engines.Do(func() { m.saved = max(m.saved, x.orders) })
	})
}

// keep has the state as it is now be written. Orders that have been given wait for it.
func (m *Module) keep() {
	if m.saver != nil {
		m.saver.Keep(savedState{m.controller.State(), m.orders})
	}
}

// save writes the state.
func (m *Module) save(state failover.State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return m.file.Save(text)
}
