package rollout

import (
	"encoding/json"
	"time"

	"gearshift/router/rollout"
	"gearshift/serving/control/statefile"
)

// newSaver starts a saver; nil without a file.
func newSaver(m *Module) *statefile.Saver[rollout.State] {
	if m.file == nil {
		return nil
	}
	return statefile.NewSaver(func(state rollout.State) {
		if err := m.save(state); err != nil {
			m.metrics.unsaved.Inc()
			m.log.Error("which versions are where is not saved; they change all the same", "error", err)
		}
	})
}

// keep has the state as it is now be written.
func (m *Module) keep(now time.Duration) {
	if m.saver != nil {
		m.saver.Keep(m.controller.State(now))
	}
}

// save writes the state.
func (m *Module) save(state rollout.State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return m.file.Save(text)
}
