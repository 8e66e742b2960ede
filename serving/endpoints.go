package serving

import (
	"strings"

	"github.com/gin-gonic/gin"
)

// endpoint is one of those that replicas answer.
type endpoint struct {
	path string
	// operation names what it does, in OpenTelemetry's words where those have one.
	operation string
	// alike says that any variant's answer serves the client. Vectors of
	// different models cannot be compared, so a failure must not mix them.
	alike bool
	// common says that every engine has it: one that does not is set up wrongly. A replica
	// that lacks another one stays healthy; see [abilities.Table].
	common bool
	// generates says that its answers are generated, token by token.
	generates bool
	// named says that the events of its streams have names.
	named bool
	// messages says that its clients speak Anthropic's Messages API.
	messages bool
	// stores says that replicas keep its answers, for those who come back for them.
	stores bool
	// counts says that it only counts or splits a text: no model works for it.
	counts bool
	// lists says that its answers may be a list.
	lists bool
	// files says that its requests are forms with files, and its answers text of any kind.
	files bool
}

// chatPath is the endpoint that every engine for text has.
const chatPath = "/v1/chat/completions"

var endpoints = [...]endpoint{
	{path: chatPath, operation: "chat", alike: true, generates: true, common: true},
	{path: "/v1/completions", operation: "text_completion", alike: true, generates: true, common: true},
	{path: "/v1/embeddings", operation: "embeddings"},
	{path: "/v1/gearshift/classify", operation: "classify", alike: true},
	{path: "/v1/responses", operation: "chat", alike: true, generates: true, named: true, stores: true},
	{path: messagesPath, operation: "chat", alike: true, generates: true, messages: true},
	{path: messagesPath + "/count_tokens", operation: "count_tokens", alike: true, messages: true, counts: true},
	{path: "/v1/rerank", operation: "rerank", alike: true, lists: true},
	{path: "/v2/rerank", operation: "rerank", alike: true, lists: true},
	{path: "/rerank", operation: "rerank", alike: true, lists: true},
	{path: "/v1/score", operation: "score", alike: true, lists: true},
	{path: "/score", operation: "score", alike: true, lists: true},
	{path: "/tokenize", operation: "tokenize", counts: true},
	{path: "/detokenize", operation: "detokenize", counts: true},
	{path: "/v1/audio/transcriptions", operation: "transcription", alike: true, files: true},
	{path: "/v1/audio/translations", operation: "translation", alike: true, files: true},
}

const messagesPath = "/v1/messages"

// speaksMessages reports whether who asks at the path expects errors as Anthropic has them.
func speaksMessages(path string) bool {
	rest, ok := strings.CutPrefix(path, messagesPath)
	return ok && (rest == "" || rest[0] == '/')
}

// handler answers the endpoint's requests.
func (s *Server) handler(e *endpoint) gin.HandlerFunc {
	return func(c *gin.Context) { s.complete(c, e) }
}
