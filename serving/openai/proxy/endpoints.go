package proxy

import (
	"slices"

	"gearshift/serving/openai/wire"
)

// Endpoint is one of those that replicas answer.
type Endpoint struct {
	Path string
	// Operation names what it does, in OpenTelemetry's words where those have one.
	Operation string
	// Alike says that any variant's answer serves the client. Vectors of
	// different models cannot be compared, so a failure must not mix them.
	Alike bool
	// Common says that every engine has it: one that does not is set up wrongly. A replica
	// that lacks another one stays healthy; see [abilities.Table].
	Common bool
	// Generates says that its answers are generated, token by token.
	Generates bool
	// Classifies says that its requests are one input, whose modalities are members of the body.
	Classifies bool
	// Tensors says that its requests are jobs of the Open Inference Protocol, whose batches alone go
	// to replicas.
	Tensors bool
	// Named says that the events of its streams have names.
	Named bool
	// Messages says that its clients speak Anthropic's Messages API.
	Messages bool
	// Continues says that its requests may name an earlier response that they go on from.
	Continues bool
	// Stores says that replicas keep its answers, for those who come back for them.
	Stores bool
	// Counts says that it only counts or splits a text: no model works for it.
	Counts bool
	// Lists says that its answers may be a list.
	Lists bool
	// Files says that its requests are forms with files, and its answers text of any kind.
	Files bool
}

// The paths of endpoints that are named elsewhere: that which every engine for text has, and those of
// jobs.
const (
	ChatPath     = "/v1/chat/completions"
	ClassifyPath = "/v1/gearshift/classify"
	InferPath    = "/v2/models/{model...}/infer"
)

// EndpointAt returns the endpoint with the path, which must be among [Endpoints].
func EndpointAt(path string) *Endpoint {
	return &Endpoints[slices.IndexFunc(Endpoints[:], func(e Endpoint) bool { return e.Path == path })]
}

// Endpoints are all that replicas answer.
var Endpoints = [...]Endpoint{
	{Path: ChatPath, Operation: "chat", Alike: true, Generates: true, Common: true},
	{Path: "/v1/completions", Operation: "text_completion", Alike: true, Generates: true, Common: true},
	{Path: "/v1/embeddings", Operation: "embeddings"},
	{Path: ClassifyPath, Operation: "classify", Alike: true, Classifies: true},
	{Path: InferPath, Operation: "infer", Alike: true, Tensors: true},
	{Path: wire.ResponsesPath, Operation: "chat", Alike: true, Generates: true, Named: true, Continues: true, Stores: true},
	{Path: wire.ResponsesPath + "/compact", Operation: "compact", Alike: true, Generates: true, Named: true, Continues: true},
	{Path: wire.ResponsesPath + "/input_tokens", Operation: "count_tokens", Alike: true, Continues: true, Counts: true},
	{Path: wire.MessagesPath, Operation: "chat", Alike: true, Generates: true, Messages: true},
	{Path: wire.MessagesPath + "/count_tokens", Operation: "count_tokens", Alike: true, Messages: true, Counts: true},
	{Path: "/v1/rerank", Operation: "rerank", Alike: true, Lists: true},
	{Path: "/v2/rerank", Operation: "rerank", Alike: true, Lists: true},
	{Path: "/rerank", Operation: "rerank", Alike: true, Lists: true},
	{Path: "/v1/score", Operation: "score", Alike: true, Lists: true},
	{Path: "/score", Operation: "score", Alike: true, Lists: true},
	{Path: "/tokenize", Operation: "tokenize", Counts: true},
	{Path: "/detokenize", Operation: "detokenize", Counts: true},
	{Path: "/v1/audio/transcriptions", Operation: "transcription", Alike: true, Files: true},
	{Path: "/v1/audio/translations", Operation: "translation", Alike: true, Files: true},
}
