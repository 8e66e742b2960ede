package scenario

import (
	"slices"
	"strings"

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
	// Upstreams is where each replica answers, by its name "variant@host", or all replicas on a
	// host that have no entry of their own, by "*@host".
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

// Local is a model that is computed in this process.
type Local struct {
	// Path of the folder with model.onnx, config.json and tokenizer.json.
	Path string `yaml:"path"`
	// Threads compute a step together. Zero: one.
	Threads int `yaml:"threads,omitempty"`
	// MaxSequences bounds the running batch. Zero: engine.max_sequences.
	MaxSequences int `yaml:"max_sequences,omitempty"`
	// KVTokens bounds the cache. Zero: what the replica's memory holds next to
	// the weights.
	KVTokens int `yaml:"kv_tokens,omitempty"`
	// Context bounds prompt and answer together. Zero: what the model has.
	Context int `yaml:"context,omitempty"`
	// Provider is CPU or CUDA; empty: CPU.
	Provider string `yaml:"execution_provider,omitempty"`
}

// The execution providers of a [Local].
const (
	CPU  = "cpu"
	CUDA = "cuda"
)

// LocalModels returns the model of each replica, by its index, with what the scenario
// says where the model's own keys are left out.
func (s *Scenario) LocalModels() []Local {
	var list []Local
	for _, p := range s.placedReplicas() {
		l := s.local(p)
		l.Threads = max(1, l.Threads)
		if l.MaxSequences == 0 {
			l.MaxSequences = s.Engine.MaxSequences
		}
		list = append(list, l)
	}
	return list
}

// ReplicaMemory returns what each replica may take, in bytes, by its index.
func (s *Scenario) ReplicaMemory() []int64 {
	var list []int64
	for _, p := range s.placedReplicas() {
		list = append(list, int64(p.memory))
	}
	return list
}

// local returns the entry of the replica, or else of its variant. What several variants share is
// that of the engine, or of the model.
func (s *Scenario) local(p placedReplica) Local {
	name := s.engineName(p)
	if l, ok := s.Serving.Models[name]; ok {
		return l
	}
	return s.Serving.Models[variantOf(name)]
}

// onHost begins the name of an upstream that is of all replicas on a host.
const onHost = "*@"

// upstream returns the entry of the replica, or else of its host.
func (s *Scenario) upstream(p placedReplica) Endpoint {
	name := s.engineName(p)
	if e, ok := s.Serving.Upstreams[name]; ok {
		return e
	}
	return s.Serving.Upstreams[onHost+hostOf(name)]
}

func hostOf(replica string) string {
	_, host, _ := strings.Cut(replica, "@")
	return host
}

func variantOf(replica string) string {
	variant, _, _ := strings.Cut(replica, "@")
	return variant
}

// locals holds serving.models against the replicas.
func (c *checker) locals() {
	const key = "serving.models"
	s := c.s.Serving
	if s.Backend != ONNX {
		c.judgeIf(len(s.Models) > 0, key, "has no meaning with backend: %s; want backend: %s, or no models", s.Backend, ONNX)
		return
	}
	for name, l := range sorted(s.Models) {
		c.local(child(key, name), l)
	}
	if !c.sound("replicas") {
		return
	}
	var known, without []string
	for _, p := range c.s.placedReplicas() {
		name := c.s.engineName(p)
		if slices.Contains(known, name) {
			continue
		}
		known = append(known, name, variantOf(name))
		if c.s.local(p).Path == "" {
			without = append(without, name)
		}
	}
	for name := range sorted(s.Models) {
		c.judgeIf(!slices.Contains(known, name), child(key, name), "unknown replica or variant; %s", hint(name, known))
	}
	if len(without) > 0 {
		at := key
		if len(s.Models) == 0 {
			at = "serving.backend"
		}
		c.add(at, "backend: %s needs a model for each replica, by its name or its variant's; none for %s", ONNX, strings.Join(without, ", "))
	}
}

func (c *checker) local(key string, l Local) {
	c.judgeIf(l.Path == "", child(key, "path"), "want the folder of a model, such as one that gearshift models make writes")
	for _, bound := range []struct {
		name  string
		value int
	}{{"threads", l.Threads}, {"max_sequences", l.MaxSequences}, {"kv_tokens", l.KVTokens}, {"context", l.Context}} {
		c.judgeIf(bound.value < 0, child(key, bound.name), "want 1 or more, or 0 for the default, not %d", bound.value)
	}
	c.judgeIf(l.Provider != "" && l.Provider != CPU && l.Provider != CUDA, child(key, "execution_provider"), "unknown provider %q; want %s or %s", l.Provider, CPU, CUDA)
}
