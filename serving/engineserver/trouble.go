package engineserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"gearshift/serving/backend"
	"gearshift/serving/engineserver/repository"
	"gearshift/serving/openai/wire"
)

// trouble is what befalls one request.
type trouble struct {
	kind    string // of a fault, or empty
	delay   time.Duration
	variety int
}

// before does what comes instead of an answer, or ahead of it. False says
// that no answer follows.
func (t trouble) before(w http.ResponseWriter, r *http.Request) bool {
	switch t.kind {
	case "refuse":
		reset(w)
	case "error":
		fail(w, http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Code: "engine_error", Message: "the engine failed, as its faults say"})
	case "hang":
		<-r.Context().Done()
	case "garbage":
		t.babble(w)
	case "slow":
		timer := time.NewTimer(t.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-r.Context().Done():
		}
	default:
		return true
	}
	return false
}

// faultySource has loads meet the faults that are set for them.
type faultySource struct {
	repository.Source
	faults *injector
	die    func()
}

// Load implements [repository.Source].
func (f faultySource) Load(ctx context.Context, m repository.Model, observe func(backend.Span)) (repository.Engine, error) {
	switch f.faults.current().Loading {
	case DieLoading:
		f.die()
		return nil, errors.New("the process ends, as its faults say")
	case HangLoading:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case FailLoading:
		return nil, errors.New("the load fails, as its faults say")
	}
	return f.Source.Load(ctx, m, observe)
}

// reset breaks the connection, with unsent data thrown away.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // no connection of HTTP/1
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// babbles are what comes instead of an answer, by content type.
var babbles = []struct{ media, text string }{
	{"text/html", "<html><body><h1>It works!</h1></body></html>"},
	{"application/json", `{"choices": [{"message": {"cont`},
	{"application/json", "\x00\xff\xfe not JSON \x80"},
	{"application/json", `[]`},
	{"text/event-stream", "data: {\"choices\": [{\"delta\"\n\ndata: \xff\xfe\n\nevent\n\n"},
	{"text/event-stream", ": nothing else\n\n"},
	{"", ""},
}

func (t trouble) babble(w http.ResponseWriter) {
	b := babbles[t.variety%len(babbles)]
	w.Header().Set("Content-Type", b.media)
	_, _ = io.WriteString(w, b.text)
}

// within says whether the answer ends after its given number of pieces: a stream
// after some events, an answer in one piece within it.
func (t trouble) within(pieces int, whole int64) bool {
	if t.kind != "cut" && t.kind != "stall" {
		return false
	}
	return whole >= 0 || pieces == t.variety%4
}

var errCut = errors.New("the answer is cut off")

// end is what comes after the part of an answer that went out.
func (t trouble) end(r *http.Request) error {
	if t.kind == "stall" {
		<-r.Context().Done()
	}
	return errCut
}
