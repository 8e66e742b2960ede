package serving

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/wire"
)

// forwarded is what of a client's header goes on to the replica. Credentials
// do: whether they leave the router is the backend's to say.
func forwarded(h http.Header) http.Header {
	out := h.Clone()
	wire.StripHop(out)
	// An answer that the upstream compressed could not be metered.
	for _, name := range []string{"Accept-Encoding", "Content-Length", "Content-Encoding", "Expect", headerTask} {
		out.Del(name)
	}
	return out
}

// answered copies what of the replica's header concerns the client.
func answered(to, from http.Header) {
	from = from.Clone()
	wire.StripHop(from)
	for _, name := range []string{headerRequestID, "Date", "Set-Cookie"} {
		from.Del(name)
	}
	for name, values := range from {
		if !strings.HasPrefix(name, "X-Gearshift-") {
			to[name] = values
		}
	}
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// relay passes the answer on as it comes. Broken says that part of it has gone
// out and the rest will not come, so the connection must break too.
func (s *Server) relay(ctx context.Context, c *gin.Context, r *http.Response, w *Work) (outcome Outcome, tokens int, broken bool) {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/json" && (r.StatusCode >= http.StatusBadRequest) || r.StatusCode/100 == 3 {
		return s.foreign(c, r), 0, false
	}
	events := media == "text/event-stream"
	h := c.Writer.Header()
	answered(h, r.Header)
	if events {
		// Proxies on the way must not hold events back.
		h.Set("X-Accel-Buffering", "no")
		if h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", "no-cache")
		}
	}
	c.Status(r.StatusCode)
	meter := wire.NewMeter(events)
	if err := s.pass(c, r.Body, meter, events, w); err != nil {
		outcome, broken = s.interrupted(ctx, c, meter, events, err)
		return outcome, meter.Tokens(), broken
	}
	meter.Close()
	return judge(r.StatusCode, meter), meter.Tokens(), false
}

// judge is the outcome of an answer that has gone out whole.
func judge(status int, meter *wire.Meter) Outcome {
	switch {
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		return Failed
	case status >= http.StatusBadRequest:
		return Refused
	case meter.Failed():
		return Failed
	}
	return Completed
}

// clientGone is what pass returns when the client, not the replica, failed.
type clientGone struct{ error }

// pass copies the body on, each piece at once, and meters it, so that the
// router knows how far the work has come.
func (s *Server) pass(c *gin.Context, body io.Reader, meter *wire.Meter, flush bool, w *Work) error {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	control := http.NewResponseController(c.Writer)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	for {
		n, err := body.Read(buffer[:])
		if n > 0 {
			_, _ = meter.Write(buffer[:n])
			w.Progress(meter.Tokens())
			// A recorder in place of a connection has no deadlines.
			_ = control.SetWriteDeadline(time.Now().Add(s.config.WriteTimeout))
			if _, err := c.Writer.Write(buffer[:n]); err != nil {
				return clientGone{err}
			}
			if flush {
				c.Writer.Flush()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// interrupted deals with an answer that broke off. If nothing of it has gone
// out, an error can; in a stream, an event can still say so.
func (s *Server) interrupted(ctx context.Context, c *gin.Context, meter *wire.Meter, events bool, err error) (outcome Outcome, broken bool) {
	if _, gone := err.(clientGone); gone {
		return Cancelled, true
	}
	if !c.Writer.Written() {
		return s.undone(ctx, c, err), false
	}
	outcome = s.outcomeOf(ctx, c, err)
	if outcome == Cancelled {
		return outcome, true
	}
	s.log.Warn("answer broke off", "replica", c.Writer.Header().Get(headerReplica), "error", err)
	if events && meter.AtLineStart() {
		e := wire.Error{Type: wire.ServerError, Code: "upstream_broke_off", Message: "the replica broke off within its answer"}
		if outcome == TimedOut {
			e = wire.Error{Type: wire.Timeout, Code: "upstream_timeout", Message: "the replica did not finish its answer in time"}
		}
		_, _ = c.Writer.WriteString("\ndata: " + string(e.JSON()) + "\n\n")
		c.Writer.Flush()
	}
	return outcome, true
}

// foreign replaces an answer that no OpenAI client would understand: the error
// page of something between, or a redirect.
func (s *Server) foreign(c *gin.Context, r *http.Response) Outcome {
	status, outcome := http.StatusBadGateway, Failed
	if r.StatusCode >= http.StatusBadRequest {
		status, outcome = r.StatusCode, judge(r.StatusCode, &wire.Meter{})
	}
	e := wire.Error{Type: wire.ServerError, Code: "upstream_error", Message: "the replica answered " + r.Status}
	if outcome == Refused {
		e.Type = wire.InvalidRequest
	}
	if after := r.Header.Get("Retry-After"); after != "" {
		c.Header("Retry-After", after)
	}
	s.fail(c, status, e)
	return outcome
}
