package proxy

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// This file has what every handler needs of the client's connection: errors in the shape
// that its client expects, and the time that it has to take what is written.

// Writer writes to clients. Its methods may be called from any goroutine.
type Writer struct {
	// Settings are those in force.
	Settings func() *config.Config
	// Ending reports whether the server is to end.
	Ending func() bool
	// Failed receives the code of each error that answers a request.
	Failed func(c *gin.Context, code string)
	// Refused receives the status of each answer to a request that is itself at fault.
	Refused func(c *gin.Context, status int)
}

// inferencePrefix begins the paths of the Open Inference Protocol whose errors are in its form.
const inferencePrefix = "/v2/models/"

// Fail answers with an error, or ends a stream with one that has had nothing but comments.
func (w *Writer) Fail(c *gin.Context, status int, e wire.Error) {
	if c.Writer.Written() { // comments have gone out, and only an event can say it
		e.Message = wire.Clipped(e.Message)
		w.Event(c, e)
		c.Abort()
		w.Failed(c, string(e.Code))
		return
	}
	// What described an answer that now does not come would be wrong.
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Type", "Cache-Control", "X-Accel-Buffering", "Etag"} {
		c.Writer.Header().Del(name)
	}
	w.Closing(c)
	e.RequestID = c.Writer.Header().Get(RequestID)
	e.Message = wire.Clipped(e.Message)
	w.WritableAfter(c, w.Settings().BodyTimeout) // net/http waits for a body that nobody read
	text := e.JSON()
	switch path := c.Request.URL.Path; {
	case wire.SpeaksMessages(path):
		text = e.Messages(status)
	case strings.HasPrefix(path, inferencePrefix):
		text = e.Inference()
	}
	c.Data(status, "application/json", text)
	c.Abort()
	w.Failed(c, string(e.Code))
}

// Refuse answers a request that is itself at fault. One for which there is no room is not.
func (w *Writer) Refuse(c *gin.Context, fault *wire.Refusal) {
	if fault.Status < http.StatusInternalServerError {
		w.Refused(c, fault.Status)
	}
	w.Fail(c, fault.Status, fault.Error)
}

// Closing has the connection close after the answer, once the server is to end: its client then
// makes a new one, elsewhere if it is a load balancer, and none is left to be closed under a request
// that is on its way. In HTTP/2 the connection takes no more requests.
func (w *Writer) Closing(c *gin.Context) {
	if w.Ending() {
		c.Writer.Header()["Connection"] = connectionClose
	}
}

var connectionClose = []string{"close"}

// Writable gives the client its time to take what is written next. The deadline
// stays when the handler has returned: what it wrote may still be on its way.
func (w *Writer) Writable(c *gin.Context) { w.WritableAfter(c, 0) }

// WritableAfter is Writable for what goes out once something else has ended.
func (w *Writer) WritableAfter(c *gin.Context, wait time.Duration) {
	// A recorder in place of a connection has no deadlines; nothing is lost.
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(wait + w.Settings().WriteTimeout))
}

// Waits lets the request take its time. In HTTP/1 the deadline is looked at by writes
// alone; in HTTP/2 it resets the stream when it passes, though nothing is written.
func (w *Writer) Waits(c *gin.Context) {
	if c.Request.ProtoMajor >= 2 {
		w.Unhurried(c)
	}
}

// Unhurried drops what the connection's last answer left, see Writable, where no other
// deadline replaces it.
func (w *Writer) Unhurried(c *gin.Context) {
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Time{})
}

// Hurry bounds what is written before a handler waits, and what HTTP/2 writes when it
// has returned.
func (w *Writer) Hurry(c *gin.Context) {
	w.Writable(c)
	if c.Request.ProtoMajor >= 2 {
		c.Next()
		w.Writable(c)
	}
}
