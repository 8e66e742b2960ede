package rollout

import (
	"encoding/json"
	"sync"
	"time"

	"gearshift/router/rollout"
)

// saver writes the controller's state to its file, one after another, so that the controller does not
// wait for the disk. What was not begun when newer state comes is left out.
type saver struct {
	module *Module
	wake   chan struct{}
	done   sync.WaitGroup

	mu     sync.Mutex // protects what follows
	next   *rollout.State
	closed bool
}

// newSaver starts a saver; nil without a file.
func newSaver(m *Module) *saver {
	if m.file == nil {
		return nil
	}
	s := &saver{module: m, wake: make(chan struct{}, 1)}
	s.done.Go(s.run)
	return s
}

// keep has the state as it is now be written.
func (m *Module) keep(now time.Duration) {
	if m.saver == nil {
		return
	}
	state := m.controller.State(now)
	m.saver.mu.Lock()
	m.saver.next = &state
	m.saver.mu.Unlock()
	m.saver.nudge()
}

func (s *saver) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look
	}
}

func (s *saver) run() {
	for range s.wake {
		s.mu.Lock()
		state, closed := s.next, s.closed
		s.next = nil
		s.mu.Unlock()
		if closed {
			return
		}
		if state == nil {
			continue
		}
		if err := s.module.save(*state); err != nil {
			s.module.metrics.unsaved.Inc()
			s.module.log.Error("which versions are where is not saved; they change all the same", "error", err)
		}
	}
}

// close ends the saver, once it has written what it is at.
func (s *saver) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.nudge()
	s.done.Wait()
}

// save writes the state.
func (m *Module) save(state rollout.State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return m.file.Save(text)
}
