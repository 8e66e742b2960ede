// Package draft asks engines of several kinds for facts, and makes a scenario of them: facts in, a
// document out, in which every number that no engine reported is marked as a guess.
package draft

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Fleet is what the engines make up: variants in order of size, and replicas of them.
type Fleet struct {
	Engines  []Engine
	Variants []Variant
	Hosts    []string // in the order in which they were named
	Replicas []Replica
	// Order says what the order of the variants rests on.
	Order string
	// Ordered is false where that is a guess.
	Ordered bool
}

// Variant is a model, wherever it runs.
type Variant struct {
	Name string
	Size
}

// Size is what is known or guessed of a variant's size.
type Size struct {
	Parameters, Active float64
	// Known reports whether the parameters are known, from the engine or the name.
	Known bool
	// Rank is that of the name's word for a size; 0 if it has none.
	Rank int
	// StepMS is the time per output token of a short request; 0 if none was sent.
	StepMS float64
	Width  float64 // bytes of a parameter
	// WidthKnown reports whether the width is known.
	WidthKnown bool
	// Weights is the bytes that the engine says; 0 if it does not.
	Weights int64
}

// Replica is a variant on an engine.
type Replica struct {
	Variant, Host int
	Engine        *Engine
	Model         *Model
}

// Compose makes a fleet of the engines. The same model on several hosts is one variant.
func Compose(engines []Engine) (*Fleet, error) {
	f := &Fleet{Engines: engines}
	names := variantNames(engines)
	for i := range engines {
		e := &engines[i]
		host := f.host(e.Host)
		for j := range e.Models {
			r := Replica{Variant: f.variant(names[i][j]), Host: host, Engine: e, Model: &e.Models[j]}
			if twin := f.twin(r); twin != nil {
				return nil, fmt.Errorf("host %s has the model %s twice, at %s and %s: a host has each once; name two hosts, such as --engine %s-a=%s --engine %s-b=%s",
					e.Host, names[i][j], twin.Engine.URL, e.URL, e.Host, twin.Engine.URL, e.Host, e.URL)
			}
			f.Replicas = append(f.Replicas, r)
		}
	}
	if len(f.Replicas) == 0 {
		return nil, fmt.Errorf("no engine has a model that answers with text")
	}
	for i := range f.Variants {
		f.measure(i)
	}
	f.sort()
	return f, nil
}

func (f *Fleet) host(name string) int {
	if i := slices.Index(f.Hosts, name); i >= 0 {
		return i
	}
	f.Hosts = append(f.Hosts, name)
	return len(f.Hosts) - 1
}

func (f *Fleet) variant(name string) int {
	if i := slices.IndexFunc(f.Variants, func(v Variant) bool { return v.Name == name }); i >= 0 {
		return i
	}
	f.Variants = append(f.Variants, Variant{Name: name})
	return len(f.Variants) - 1
}

// twin is another replica of the same variant on the same host.
func (f *Fleet) twin(r Replica) *Replica {
	for i := range f.Replicas {
		if f.Replicas[i].Variant == r.Variant && f.Replicas[i].Host == r.Host {
			return &f.Replicas[i]
		}
	}
	return nil
}

// unnamed are the signs that a name in a scenario cannot have.
var unnamed = regexp.MustCompile(`[^A-Za-z0-9._:/-]+`)

func safe(name string) string {
	name = strings.TrimLeft(unnamed.ReplaceAllString(name, "-"), "._:/-")
	switch name {
	case "":
		return "model"
	case "auto": // lets the policy choose
		return "auto-model"
	}
	return name
}

// short returns a model's name without whose it is, and without what a file's name ends in.
func short(id string) string { return safe(strings.TrimSuffix(path.Base(id), ".gguf")) }

// variantNames returns the name of each engine's models: the short one, unless two models of
// one host would share it.
func variantNames(engines []Engine) [][]string {
	ids := map[string]map[string][]string{} // by host and short name
	for _, e := range engines {
		for _, m := range e.Models {
			if ids[e.Host] == nil {
				ids[e.Host] = map[string][]string{}
			}
			if list := ids[e.Host][short(m.ID)]; !slices.Contains(list, m.ID) {
				ids[e.Host][short(m.ID)] = append(list, m.ID)
			}
		}
	}
	ambiguous := map[string]bool{}
	for _, byName := range ids {
		for name, list := range byName {
			if len(list) > 1 {
				ambiguous[name] = true
			}
		}
	}
	names := make([][]string, len(engines))
	for i, e := range engines {
		for _, m := range e.Models {
			name := short(m.ID)
			if ambiguous[name] {
				name = safe(m.ID)
			}
			names[i] = append(names[i], name)
		}
	}
	return names
}

// measure gathers what the replicas' engines say of a variant's size.
func (f *Fleet) measure(variant int) {
	v := &f.Variants[variant]
	v.Parameters, v.Active = Parameters(v.Name)
	v.Width, v.WidthKnown = bytesPerParameter(v.Name)
	v.Rank = rankOf(v.Name)
	var steps []float64
	for _, r := range f.Replicas {
		if r.Variant != variant {
			continue
		}
		m := r.Model
		if all, active := Parameters(m.ID); v.Parameters == 0 {
			v.Parameters, v.Active = all, active
		}
		if m.Parameters > 0 {
			v.Parameters = m.Parameters
			if v.Active == 0 || v.Active > m.Parameters {
				v.Active = m.Parameters
			}
		}
		for _, text := range []string{m.Quantization, m.ID} {
			if bytes, said := bytesPerParameter(text); said && !v.WidthKnown {
				v.Width, v.WidthKnown = bytes, true
			}
		}
		v.Weights = max(v.Weights, m.WeightBytes)
		if m.Step > 0 {
			steps = append(steps, float64(m.Step.Microseconds())/1000)
		}
	}
	v.Known = v.Parameters > 0
	if len(steps) > 0 {
		slices.Sort(steps)
		v.StepMS = steps[len(steps)/2]
	}
}

// sort puts the variants in order of size by the first of the measures that all have.
func (f *Fleet) sort() {
	for _, by := range []struct {
		words string
		of    func(Variant) float64
	}{
		{"the number of parameters", func(v Variant) float64 { return v.Parameters * (1 + v.Width/1000) }}, // of two as large, the finer
		{"the time per token of a short request", func(v Variant) float64 { return v.StepMS }},
		{"the word for a size in the name", func(v Variant) float64 { return float64(v.Rank) }},
	} {
		if slices.ContainsFunc(f.Variants, func(v Variant) bool { return by.of(v) == 0 }) {
			continue
		}
		f.order(func(a, b Variant) int { return cmp.Compare(by.of(a), by.of(b)) })
		f.Order, f.Ordered = by.words, true
		break
	}
	if !f.Ordered {
		f.Order = "the order in which the engines list them"
	}
	for i := range f.Variants {
		f.Variants[i].assume(i)
	}
}

func (f *Fleet) order(compare func(a, b Variant) int) {
	place := make([]int, len(f.Variants))
	for i := range place {
		place[i] = i
	}
	slices.SortStableFunc(place, func(i, j int) int { return compare(f.Variants[i], f.Variants[j]) })
	old := slices.Clone(f.Variants)
	to := make([]int, len(place))
	for at, i := range place {
		f.Variants[at], to[i] = old[i], at
	}
	for i := range f.Replicas {
		f.Replicas[i].Variant = to[f.Replicas[i].Variant]
	}
}

// assume sets the size of a variant for which none is known: a billion parameters, and three
// times as many for each before it.
func (v *Variant) assume(place int) {
	if v.Known {
		return
	}
	v.Parameters = 1e9
	for range place {
		v.Parameters *= 3
	}
	v.Active = v.Parameters
}

// Engine is one inference server, as it answered.
type Engine struct {
	Host string // that it runs on, by the user's word
	URL  string // as a scenario has it, such as http://gpu0:8000/v1
	Key  string // the environment variable with its API key; empty: none
	Kind Kind
	// Models that it serves, in its own order.
	Models []Model
	// Unloaded names models of its repository that it does not answer for.
	Unloaded []string
}

// Kind is what software answers.
type Kind string

// The kinds of engines whose own endpoints are known. Another is asked for what all have.
const (
	VLLM      Kind = "vLLM"
	SGLang    Kind = "SGLang"
	LlamaCpp  Kind = "llama.cpp"
	Ollama    Kind = "Ollama"
	Gearshift Kind = "gearshift engine"
	Other     Kind = "OpenAI-compatible"
)

// Model is what an engine says of a model. A zero is what it does not say.
type Model struct {
	ID         string // what the engine calls it
	Context    int    // the most tokens of a prompt and its answer together
	KVTokens   int    // what its KV cache holds
	Block      int    // tokens of a block of the cache
	Sequences  int    // that run at once
	Parameters float64
	// WeightBytes is the size of the weights, and KVBytes that of a cached token.
	WeightBytes, KVBytes int64
	Quantization         string // such as Q4_K_M
	// Step is the time per output token of one short request.
	Step time.Duration
	// Answered is the requests that MeanPrompt and MeanOutput, in tokens, rest on.
	Answered               int
	MeanPrompt, MeanOutput float64
}
