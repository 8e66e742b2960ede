// Package draft makes a scenario from what engines report. It is pure: facts in, a
// document out, in which every number that no engine reported is marked as a guess.
// Package discovery asks the engines.
package draft

import "time"

// Engine is one inference server, as it answered.
type Engine struct {
	Host string // that it runs on, by the user's word
	URL  string // as a scenario has it, such as http://gpu0:8000/v1
	Key  string // the environment variable with its API key; empty: none
	Kind Kind
	// Models that it serves, in its own order.
	Models []Model
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
