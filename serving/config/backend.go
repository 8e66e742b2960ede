package config

import (
	"net/http"
	"sync/atomic"

	"gearshift/serving/engines/agents"
	"gearshift/serving/openai/wire"
)

// Backend is what answers for one replica.
type Backend struct {
	Transport http.RoundTripper
	// Model is the name by which the backend knows the variant. Empty is the
	// variant's own.
	Model string
	// Versioned, if set, has the name in the place of Model: another one for each version that
	// the replica gets.
	Versioned *Name
	// Timeouts of this backend's own. Zeros are the server's.
	Timeouts PhaseTimeouts
	// Lifecycle is how the backend is ordered to load its model. Nil: it cannot be. The
	// transport is an [agents.Engine] then.
	Lifecycle agents.Dialect
	// Context is how many tokens a prompt and its answer may have together. Zero is what
	// the backend says, if it does.
	Context int
	// Cut is what the replica's variant leaves out of messages.
	Cut wire.Cut
}

// Named returns the name by which the backend knows the model that it has now; empty if it has
// none.
func (b *Backend) Named() string {
	if b.Versioned != nil {
		return b.Versioned.Get()
	}
	return b.Model
}

// Name is a name that may change. Its methods may be called from any goroutine. The zero value is
// empty.
type Name struct{ current atomic.Pointer[string] }

// Get returns the name.
func (n *Name) Get() string {
	if s := n.current.Load(); s != nil {
		return *s
	}
	return ""
}

// Set changes it.
func (n *Name) Set(name string) { n.current.Store(&name) }
