package failover

import (
	"encoding/json"
	"sync"

	"gearshift/router/failover"
)

// saver writes the controller's state to its file, one after another, beside the controller, which
// does not wait for the disk. What was not begun when newer state comes is left out.
type saver struct {
	module *Module
	wake   chan struct{}
	done   sync.WaitGroup

	mu     sync.Mutex // protects what follows
	next   *failover.State
	orders uint64
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

// keep has the state as it is now be written. Orders that have been given wait for it.
func (m *Module) keep() {
	if m.saver == nil {
		return
	}
	state := m.controller.State()
	m.saver.mu.Lock()
	m.saver.next, m.saver.orders = &state, m.orders
	m.saver.mu.Unlock()
	m.saver.nudge()
}

func (s *saver) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look
	}
}

// take is what is to be written next.
func (s *saver) take() (state *failover.State, orders uint64, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, orders, closed = s.next, s.orders, s.closed
	s.next = nil
	return state, orders, closed
}

func (s *saver) run() {
	for range s.wake {
		state, orders, closed := s.take()
		if closed {
			return
		}
		if state == nil {
			continue
		}
		m := s.module
		// A disk that fails must not keep applications from being recovered.
		if err := m.save(*state); err != nil {
			m.metrics.unsaved.Inc()
			m.log.Error("the failover state is not saved; orders are carried out all the same", "error", err)
		}
		m.engines.Do(func() { m.saved = max(m.saved, orders) })
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
func (m *Module) save(state failover.State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return m.file.Save(text)
}
