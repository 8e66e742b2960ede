package serving

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
)

// The headers that the server reads or writes, in addition to those of [reply].
const (
	headerPolicy   = "X-Gearshift-Policy"
	headerFallback = "X-Gearshift-Fallback"
	// "1" asks for the decision's explanation, which comes under the same name.
	headerExplain = "X-Gearshift-Explain"
)

// The headers that set deadlines, in milliseconds: per output token, for the first of
// them, and for the end of the answer. The first one present counts.
var (
	deadlineHeaders   = []string{"X-Llm-D-Slo-Tpot-Ms", "X-Slo-Tpot-Ms"}
	firstTokenHeaders = []string{"X-Llm-D-Slo-Ttft-Ms", "X-Slo-Ttft-Ms"}
	totalHeaders      = []string{"X-Gearshift-Total-Ms"}
)

// identify gives every answer the client's own request ID, or a new one.
func (s *Server) identify(c *gin.Context) {
	id := wire.Field(c.Request.Header, proxy.RequestID)
	if !wire.Plain(id) {
		id = randomID()
	}
	c.Writer.Header()[proxy.RequestID] = []string{id}
}

func randomID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// recovery turns a panic into an error, or into a broken connection if part of
// an answer has gone out: a client must not take that for the whole.
func (s *Server) recovery(c *gin.Context) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if value == http.ErrAbortHandler {
			panic(value)
		}
		s.log.Error("panic", "value", value, "path", c.Request.URL.Path,
			"request", c.Writer.Header().Get(proxy.RequestID), "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		s.fail(c, http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Code: "internal_error", Message: "the router failed on this request; its log says why"})
	}()
	c.Next()
}

func (s *Server) unknownPath(c *gin.Context) {
	s.fail(c, http.StatusNotFound, unknownURL(c.Request))
}

func unknownURL(r *http.Request) wire.Error {
	return wire.Error{Type: wire.InvalidRequest, Code: "unknown_url", Message: "there is no " + r.Method + " " + r.URL.Path}
}

func (s *Server) wrongMethod(c *gin.Context) {
	if s.noEndpoint(c.Request) {
		c.Writer.Header().Del("Allow")
		s.fail(c, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: wire.UnsupportedEndpoint, Message: "the router has no " + c.Request.Method + " " + c.Request.URL.Path})
		return
	}
	message := c.Request.URL.Path + " does not take " + c.Request.Method
	if allowed := c.Writer.Header().Get("Allow"); allowed != "" {
		message += "; want " + allowed
	}
	s.fail(c, http.StatusMethodNotAllowed, wire.Error{Type: wire.InvalidRequest, Code: "method_not_allowed", Message: message})
}

// fail answers with an error.
func (s *Server) fail(c *gin.Context, status int, e wire.Error) { s.reply.Fail(c, status, e) }

// atWork says that the request's connection is no longer one that waits.
func (s *Server) atWork(c *gin.Context) { s.clients.Begin(c.Request) }

// holdHeader has the header of an encrypted request count while it is at work. One that
// is not encrypted counted as it came.
func (s *Server) holdHeader(c *gin.Context) {
	if c.Request.TLS == nil {
		return
	}
	held, ok := s.clients.Hold(c.Request.Header)
	if !ok {
		c.Header("Connection", "close")
		s.refuse(c, s.noMemory(c, "for headers"))
		return
	}
	if held > 0 {
		defer s.clients.Release(held)
		c.Next()
	}
}
