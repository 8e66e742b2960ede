package serving

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"gearshift/serving/admission"
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

// middleware is what requests pass on their way to an endpoint, and what those get that have none.
type middleware struct {
	log       *slog.Logger
	reply     *proxy.Writer
	clients   *admission.Connections
	memory    *admission.Memory
	responses *responses
	passer    *passer
}

// identify gives every answer the client's own request ID, or a new one.
func identify(c *gin.Context) {
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

func (x *middleware) newRouter() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.NoRoute(x.unknownPath)
	e.NoMethod(x.wrongMethod)
	return e
}

// recovery turns a panic into an error, or into a broken connection if part of
// an answer has gone out: a client must not take that for the whole.
func (x *middleware) recovery(c *gin.Context) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if value == http.ErrAbortHandler {
			panic(value)
		}
		x.log.Error("panic", "value", value, "path", c.Request.URL.Path,
			"request", c.Writer.Header().Get(proxy.RequestID), "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		x.reply.Fail(c, http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Code: "internal_error", Message: "the router failed on this request; its log says why"})
	}()
	c.Next()
}

func (x *middleware) unknownPath(c *gin.Context) {
	if x.passer.pass(c) {
		return
	}
	x.reply.Fail(c, http.StatusNotFound, unknownURL(c.Request))
}

func unknownURL(r *http.Request) wire.Error {
	return wire.Error{Type: wire.InvalidRequest, Code: "unknown_url", Message: "there is no " + r.Method + " " + r.URL.Path}
}

func (x *middleware) wrongMethod(c *gin.Context) {
	if x.responses.noEndpoint(c.Request) {
		c.Writer.Header().Del("Allow")
		x.reply.Fail(c, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: wire.UnsupportedEndpoint, Message: "the router has no " + c.Request.Method + " " + c.Request.URL.Path})
		return
	}
	message := c.Request.URL.Path + " does not take " + c.Request.Method
	if allowed := c.Writer.Header().Get("Allow"); allowed != "" {
		message += "; want " + allowed
	}
	x.reply.Fail(c, http.StatusMethodNotAllowed, wire.Error{Type: wire.InvalidRequest, Code: "method_not_allowed", Message: message})
}

// holdHeader has the header of an encrypted request count while it is at work. One that
// is not encrypted counted as it came.
func (x *middleware) holdHeader(c *gin.Context) {
	if c.Request.TLS == nil {
		return
	}
	held, ok := x.clients.Hold(c.Request.Header)
	if !ok {
		c.Header("Connection", "close")
		x.reply.Refuse(c, x.memory.Refusal(c.Writer.Header(), "headers"))
		return
	}
	if held > 0 {
		defer x.clients.Release(held)
		c.Next()
	}
}
