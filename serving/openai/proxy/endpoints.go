package proxy

import "gearshift/serving/openai/wire"

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

// ChatPath is the endpoint that every engine for text has.
const ChatPath = "/v1/chat/completions"

// Endpoints are all that replicas answer.
var Endpoints = [...]Endpoint{
	{Path: ChatPath, Operation: "chat", Alike: true, Generates: true, Common: true},
	{Path: "/v1/completions", Operation: "text_completion", Alike: true, Generates: true, Common: true},
	{Path: "/v1/embeddings", Operation: "embeddings"},
	{Path: "/v1/gearshift/classify", Operation: "classify", Alike: true, Classifies: true},
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
