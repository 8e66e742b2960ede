package scenario

import (
	"slices"
	"strings"
)

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
