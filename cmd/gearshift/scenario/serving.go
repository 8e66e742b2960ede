package scenario

import (
	"gearshift/serving/backend"
	"gearshift/serving/config"
	"gearshift/serving/memory"
)

// Serving is how a router serves the scenario.
type Serving struct {
	Addr     string `yaml:"addr"`     // host:port; an empty host listens on all interfaces
	Balancer string `yaml:"balancer"` // of the simulator as well
	// Fallback is the rule that routes when no policy does: without one in the file the
	// scenario's [Scenario.BestRule].
	Fallback string `yaml:"fallback"`
	// MaxInFlight bounds the requests on a replica, waiting ones included.
	// Zero is no bound.
	MaxInFlight int   `yaml:"max_in_flight"`
	MaxBody     Bytes `yaml:"max_body"`
	MaxHeader   Bytes `yaml:"max_header"`
	// Memory bounds what requests in flight hold, all together.
	Memory Budgets `yaml:"memory,omitempty"`
	// Backend is Simulated, Upstream or ONNX.
	Backend string `yaml:"backend"`
	// Upstreams is where each replica answers, by its name "variant@host".
	Upstreams map[string]Endpoint `yaml:"upstreams,omitempty"`
	// Models is what the ONNX backend loads for each replica, by the name of
	// the replica or of its variant.
	Models map[string]Local `yaml:"models,omitempty"`
	// Server is the rest, which the server owns. Use [Serving.Config].
	Server config.Config `yaml:",inline"`
}

// Budgets are those of [memory.Config]; what is left out is derived there.
type Budgets struct {
	Limit   Bytes `yaml:"limit,omitempty"`
	Bodies  Bytes `yaml:"bodies,omitempty"`
	Answers Bytes `yaml:"answers,omitempty"`
}

// The backends of [Serving].
const (
	Simulated = "simulated" // engines that run the profiles in real time
	Upstream  = "upstream"  // OpenAI-compatible servers
	ONNX      = "onnx"      // models that ONNX Runtime computes in this process
)

// Endpoint is an OpenAI-compatible server that stands for one replica.
type Endpoint struct {
	backend.UpstreamConfig `yaml:",inline"`
	// Model is what the server calls the variant. Empty: the variant's name.
	Model string `yaml:"model,omitempty"`
	// Context is how many tokens a prompt and its answer may have together. Zero: what the
	// server says.
	Context int `yaml:"context,omitempty"`
	// Lifecycle is the dialect by which the router loads the server's models and puts them
	// to sleep, see [agents.Dialects]. Empty: it does not.
	Lifecycle string `yaml:"lifecycle,omitempty"`
	// Timeouts of this server's own. Zeros are those of serving.timeouts.
	Timeouts config.PhaseTimeouts `yaml:"timeouts,omitempty"`
}

func (s *Serving) defaults() {
	server := config.Default()
	*s = Serving{
		Fallback:    usualRule,
		Addr:        server.Addr,
		Balancer:    "smallest-batch",
		MaxInFlight: 512,
		MaxBody:     Bytes(server.MaxBody),
		MaxHeader:   Bytes(server.MaxHeader),
		Backend:     Simulated,
		Server:      server,
	}
}

// Config returns the server's configuration.
func (s *Serving) Config() config.Config {
	c := s.Server
	c.Addr, c.MaxBody, c.MaxHeader = s.Addr, int64(s.MaxBody), int(s.MaxHeader)
	c.Memory = memory.Config{Limit: int64(s.Memory.Limit), Bodies: int64(s.Memory.Bodies), Answers: int64(s.Memory.Answers)}
	return c
}
