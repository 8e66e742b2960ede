package discovery

import (
	"context"
	"slices"
	"sync"
)

// Memory is a [Source] whose endpoints the program sets. Its methods may be called from any goroutine. The zero value
// lists none.
type Memory struct {
	mu   sync.Mutex
	list []Endpoint
	set  chan struct{} // closed when list changes
}

// Set replaces the endpoints.
func (m *Memory) Set(list []Endpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.Clone(list)
	if m.set != nil {
		close(m.set)
		m.set = nil
	}
}

// get returns the endpoints, and a channel that is closed when they change.
func (m *Memory) get() ([]Endpoint, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.set == nil {
		m.set = make(chan struct{})
	}
	return m.list, m.set
}

// Watch implements [Source].
func (m *Memory) Watch(ctx context.Context, changed func([]Endpoint)) error {
	for {
		list, next := m.get()
		changed(list)
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}
