package serving

import (
	"strings"

	"github.com/gin-gonic/gin"
)

// endpoint is one of those that replicas answer.
type endpoint struct {
	path string
	// alike says that any variant's answer serves the client. Vectors of
	// different models cannot be compared, so a failure must not mix them.
	alike bool
	// common says that every engine has it: one that does not is set up wrongly.
	common bool
	// generates says that its answers are generated, token by token.
	generates bool
	// named says that the events of its streams have names.
	named bool
	// messages says that its clients speak Anthropic's Messages API.
	messages bool
	// stores says that replicas keep its answers, for those who come back for them.
	stores bool
}

// chatPath is the endpoint that every engine for text has.
const chatPath = "/v1/chat/completions"

var endpoints = [...]endpoint{
	{path: chatPath, alike: true, generates: true, common: true},
	{path: "/v1/completions", alike: true, generates: true, common: true},
	{path: "/v1/embeddings"},
	{path: "/v1/gearshift/classify", alike: true},
	{path: "/v1/responses", alike: true, generates: true, named: true, stores: true},
	{path: messagesPath, alike: true, generates: true, messages: true},
	{path: messagesPath + "/count_tokens", alike: true, messages: true},
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
