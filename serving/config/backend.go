package config

import (
	"net/http"

	"gearshift/serving/agents"
	"gearshift/serving/wire"
)

// Backend is what answers for one replica.
type Backend struct {
	Transport http.RoundTripper
	// Model is the name by which the backend knows the variant. Empty is the
	// variant's own.
	Model string
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
