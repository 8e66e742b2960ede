package scenario

import (
	"fmt"
	"slices"
	"strings"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/serving/admission/limits"
	"gearshift/serving/backend"
	"gearshift/serving/config"
	"gearshift/serving/engines/address"
	"gearshift/serving/engines/agents"
)

// Serving is how a router serves the scenario.
type Serving struct {
	Addr     string `yaml:"addr"`     // host:port; an empty host listens on all interfaces
	Balancer string `yaml:"balancer"` // of the simulator as well
	// Fallback is the rule that routes when no policy does: without one in the file the
	// scenario's [Scenario.BestRule].
	Fallback string `yaml:"fallback"`
	// Tuning is TuningOn or TuningOff. It sets whether a router searches for a rule in the background where
	// the scenario lists none.
	Tuning string `yaml:"tuning"`
	// Profiles is DeclaredProfiles or LearnedProfiles.
	Profiles string `yaml:"profiles"`
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

// The values of [Serving.Tuning].
const (
	TuningOn  = "on"
	TuningOff = "off"
)

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

// What the latency models of a router are.
const (
	DeclaredProfiles = "declared" // those of the file
	LearnedProfiles  = "learned"  // fitted to the answers that it times, begun at those of the file
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
		Tuning:      TuningOn,
		Profiles:    DeclaredProfiles,
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
	c.Memory = limits.MemoryConfig{Limit: int64(s.Memory.Limit), Bodies: int64(s.Memory.Bodies), Answers: int64(s.Memory.Answers)}
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

// local returns the entry of the replica, or else of its placement's name, or of its variant. What several variants share is
// that of the engine, or of the model.
func (s *Scenario) local(p placedReplica) Local {
	name := s.engineName(p)
	if l, ok := s.Serving.Models[name]; ok {
		return l
	}
	if l, ok := s.Serving.Models[nameOf(name)]; ok || p.worker > 0 {
		return l
	}
	return s.Serving.Models[s.Variants[p.variant].Name]
}

// onHost begins the name of an upstream that is of all replicas on a host.
const onHost = "*@"

// upstream returns the entry of the replica, or else of its host.
func (s *Scenario) upstream(p placedReplica) Endpoint {
	_, e := s.endpoint(p)
	return e
}

func hostOf(replica string) string {
	_, host, _ := strings.Cut(replica, "@")
	return host
}

// nameOf returns what stands before the host: the variant, or the model or the name of its own.
func nameOf(replica string) string {
	name, _, _ := strings.Cut(replica, "@")
	return name
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
	replicas := c.s.placedReplicas()
	if !c.sound("replicas") || slices.ContainsFunc(replicas, func(p placedReplica) bool { return p.variant < 0 }) {
		return
	}
	var known, without []string
	for _, p := range replicas {
		name := c.s.engineName(p)
		if slices.Contains(known, name) {
			continue
		}
		known = append(known, name, nameOf(name))
		if c.s.Replicas[p.placement].Name != "" && p.variant >= 0 {
			known = append(known, c.s.Variants[p.variant].Name)
		}
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

// engines checks that engines can do what the sections of the file have the router order.
func (c *checker) engines() {
	if !c.sound("replicas") || !c.sound("serving.upstreams") {
		return
	}
	if c.s.Serving.Backend == ONNX {
		for section, on := range sorted(map[string]bool{"failover": c.s.failing, "rollout": c.s.rolling}) {
			c.judgeIf(on, section, "the models of backend: %s stay as they are, in the router's own process; want backend: %s, and engines that load", ONNX, Upstream)
		}
	}
	if c.s.Serving.Backend != Upstream {
		return // what nothing drives is placed at once
	}
	said := map[string]bool{}
	for _, p := range c.s.listedReplicas() {
		if p.variant < 0 || p.host < 0 {
			continue
		}
		name, e := c.s.endpoint(p)
		why, able := c.driven(p, e.Lifecycle)
		if why == "" || said[name] {
			continue
		}
		said[name] = true
		c.judge(child(child("serving.upstreams", name), "lifecycle"), "%s, and %s; want %s", quoted(e.Lifecycle), why, strings.Join(able, ", "))
	}
	c.single()
	c.twins()
	if c.s.failing {
		c.apart()
	}
}

// apart reports hosts that have one engine: to failover each is a machine of its own.
func (c *checker) apart() {
	host, said := map[string]int{}, map[string]bool{} // by address; by upstream
	for _, p := range c.s.listedReplicas() {
		name, e := c.s.endpoint(p)
		server, err := address.Parse(e.URL)
		if err != nil || p.host < 0 || said[name] {
			continue
		}
		at := fmt.Sprint(&server.API)
		if other, known := host[at]; known && other != p.host {
			said[name] = true
			c.judge(child(child("serving.upstreams", name), "url"), "%s is the engine of %s too, and failover takes %s for another machine; want the address of its own engine", e.URL, c.s.Hosts[other].Name, c.s.Hosts[p.host].Name)
		} else {
			host[at] = p.host
		}
	}
}

// driven says what the file has the replica's engine ordered to do that it cannot, and which dialects can;
// nothing where there is no such order.
func (c *checker) driven(p placedReplica, lifecycle string) (why string, able []string) {
	switch v := &c.s.Variants[p.variant]; {
	case c.s.rolls(p) && !loads(lifecycle):
		return "rollout has its engine load other versions", append(loaders(), "or real_time of the model")
	case c.s.failing && p.state != fleet.Up && lifecycle == "" && slices.ContainsFunc(c.s.Tasks, func(t Task) bool { return t.Rate > 0 && t.answers(v.Name) }):
		return fmt.Sprintf("failover has its engine load %s", v.Name), append(agents.Dialects(), "or state: up of all its replicas, listed in the file, where the engine has them all")
	}
	return "", nil
}

func quoted(lifecycle string) string {
	if lifecycle == "" {
		return "there is none"
	}
	return fmt.Sprintf("%q cannot load", lifecycle)
}

// loads reports whether engines of the dialect load models.
func loads(lifecycle string) bool {
	d, err := agents.DialectNamed(lifecycle)
	return err == nil && d != nil && d.Refuses(agents.Order{Verb: control.Load}) == nil
}

// loaders are the dialects whose engines load.
func loaders() []string {
	return slices.DeleteFunc(agents.Dialects(), func(d string) bool { return !loads(d) })
}

// single reports the upstreams that stand for several models of a host and have one: by its name, or because
// their engine runs what it was started with.
func (c *checker) single() {
	first, said := map[string]placedReplica{}, map[string]bool{} // by host and address; by upstream
	for _, p := range c.s.listedReplicas() {
		if p.variant < 0 || p.host < 0 || p.worker > 0 {
			continue
		}
		name, e := c.s.endpoint(p)
		server, err := address.Parse(e.URL)
		started := e.Lifecycle != "" && !loads(e.Lifecycle)
		if err != nil || said[name] || !started && e.Model == "" {
			continue
		}
		at := fmt.Sprint(p.host, " ", &server.API)
		q, taken := first[at]
		if !taken {
			first[at] = p
			continue
		}
		v, w := &c.s.Variants[p.variant], &c.s.Variants[q.variant]
		_, other := c.s.endpoint(q)
		key, own := child("serving.upstreams", name), fmt.Sprintf("an entry for each, %s and %s, with a url of its own", c.s.replicaName(q), c.s.replicaName(p))
		switch {
		case v.sameModel(w):
			continue
		case started:
			c.judge(key, "is one engine for %s and %s, and %s runs the one model with which it was started; want %s", w.Name, v.Name, e.Lifecycle, own)
		case e.Model == other.Model:
			c.judge(child(key, "model"), "%q is one model for %s and %s; want %s, or no model where the server calls them so", e.Model, w.Name, v.Name, own)
		default:
			continue
		}
		said[name] = true
	}
}

// twins reports two replicas of a variant on a host, such as engines at two shares of its memory, that are one engine:
// neither can be up or asleep without the other.
func (c *checker) twins() {
	first := map[string]placedReplica{} // by host, address, variant and the name there
	for _, p := range c.s.listedReplicas() {
		if p.variant < 0 || p.host < 0 || p.worker > 0 {
			continue
		}
		name, e := c.s.endpoint(p)
		server, err := address.Parse(e.URL)
		if err != nil {
			continue
		}
		at := fmt.Sprint(p.host, " ", &server.API, " ", p.variant, " ", e.Model)
		if q, taken := first[at]; taken {
			c.judge(child("serving.upstreams", name), "is one engine for %s and %s; want an entry for each, with a url of its own, or a model of its own by which one server has both", c.s.replicaName(q), c.s.replicaName(p))
			continue
		}
		first[at] = p
	}
}

// sameModel reports whether the variants answer by the same model: with fewer inputs, for instance.
func (v *Variant) sameModel(w *Variant) bool {
	cut := func(v *Variant) bool { return len(v.Modalities) > 0 || v.ImageDetail != "" }
	return v.Model != "" && v.Model == w.Model || v.Name == w.Name || cut(v) || cut(w)
}
