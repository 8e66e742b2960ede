package scenario

// Serving is how a router serves the scenario.
type Serving struct {
	Addr     string `yaml:"addr"` // host:port; an empty host listens on all interfaces
	Balancer string `yaml:"balancer"`
	// Fallback is the rule that routes when no learned policy can.
	Fallback string `yaml:"fallback"`
	// MaxInFlight bounds the requests on a replica, waiting ones included.
	// Zero is no bound.
	MaxInFlight int   `yaml:"max_in_flight"`
	MaxBody     Bytes `yaml:"max_body"`
	// Backend is Simulated or Upstream.
	Backend string `yaml:"backend"`
	// Upstreams is where each replica answers, by its name "variant@host".
	Upstreams map[string]Endpoint `yaml:"upstreams,omitempty"`
	Timeouts  Timeouts            `yaml:"timeouts"`
}

// The backends of [Serving].
const (
	Simulated = "simulated" // engines that run the profiles in real time
	Upstream  = "upstream"  // OpenAI-compatible servers
)

// Endpoint is an OpenAI-compatible server that stands for one replica.
type Endpoint struct {
	URL string `yaml:"url"` // the base, such as http://gpu0:8000/v1
	// APIKeyEnv names the environment variable that holds the key. Keys
	// themselves do not belong in a scenario. Empty: no key is sent.
	APIKeyEnv string `yaml:"api_key_env,omitempty"`
	// Model is what the server calls the variant. Empty: the variant's name.
	Model string `yaml:"model,omitempty"`
}

// Timeouts bound a request at its stages, in seconds.
type Timeouts struct {
	ConnectS float64 `yaml:"connect_s"` // to reach an upstream
	HeaderS  float64 `yaml:"header_s"`  // from the request sent to the first byte of the answer
	IdleS    float64 `yaml:"idle_s"`    // between two pieces of an answer
	TotalS   float64 `yaml:"total_s"`   // from arrival to the end
	DrainS   float64 `yaml:"drain_s"`   // for the requests in flight when the router stops
}

func (s *Serving) defaults() {
	*s = Serving{
		Addr:        "127.0.0.1:8080",
		Balancer:    "smallest-batch",
		Fallback:    "slackfit",
		MaxInFlight: 512,
		MaxBody:     8 << 20,
		Backend:     Simulated,
		Timeouts:    Timeouts{ConnectS: 5, HeaderS: 60, IdleS: 60, TotalS: 600, DrainS: 30},
	}
}
