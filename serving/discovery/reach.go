package discovery

import "sync"

// reach records which look-ups of a source fail. The zero value has none. Its methods may be called from any goroutine.
type reach struct {
	mu      sync.Mutex
	failing map[string]bool
}

// note records whether the look-up fails, and reports whether that is a change.
func (r *reach) note(what string, fails bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing[what] == fails {
		return false
	}
	if r.failing == nil {
		r.failing = map[string]bool{}
	}
	if r.failing[what] = fails; !fails {
		delete(r.failing, what)
	}
	return true
}

// Reachable reports whether no look-up fails.
func (r *reach) Reachable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failing) == 0
}

// reachable reports whether the source can be read. One that does not say always can.
func (m *Module) reachable() bool {
	s, ok := m.options.Source.(interface{ Reachable() bool })
	return !ok || s.Reachable()
}
