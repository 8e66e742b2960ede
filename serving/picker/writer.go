package picker

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gearshift/serving/access"
)

// writer sends an answer to the gateway. Before a replica has answered, a handler's output is the router's own answer:
// writer buffers it until its end, and sends it in place of a pick. It sends a replica's answer on piece by piece.
type writer struct {
	*exchange
	header http.Header
	status int    // 0 until the header is written
	kept   []byte // not yet sent
	begun  bool   // the answer's header was sent
}

// Header implements [http.ResponseWriter].
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// relays reports whether the output is a replica's answer. An answer of the router's own has another status.
func (w *writer) relays() bool {
	return w.begun || w.answer != nil && !w.unseen && w.status == w.answer.StatusCode
}

// Write implements [http.ResponseWriter].
func (w *writer) Write(p []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	w.kept = append(w.kept, p...)
	for w.relays() && len(w.kept) > mostPiece {
		if err := w.flush(w.kept[:mostPiece], false); err != nil {
			return 0, err
		}
		w.kept = append(w.kept[:0], w.kept[mostPiece:]...)
	}
	return len(p), nil
}

// FlushError sends the buffered part of a replica's answer; see [http.ResponseController].
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if !w.relays() {
		return nil
	}
	err := w.flush(w.kept, false)
	w.kept = w.kept[:0]
	return err
}

// Flush implements [http.Flusher].
func (w *writer) Flush() { _ = w.FlushError() }

// SetReadDeadline limits the time until the request's body has come; see [http.ResponseController].
func (w *writer) SetReadDeadline(t time.Time) error {
	w.late.set(t)
	return nil
}

// flush sends the header, unless it was sent, and a piece.
func (w *writer) flush(piece []byte, last bool) error {
	if !w.begun {
		w.begun = true
		m := mutation(w.original, w.header, nil)
		if was, is := w.original["Content-Length"], w.header["Content-Length"]; was != nil && is == nil {
			m.RemoveHeaders = append(m.RemoveHeaders, "content-length")
		} else if !slices.Equal(was, is) { // the router replaces the body
			m.SetHeaders = append(m.SetHeaders, set("content-length", is[0]))
		}
		if err := w.send(answerHead(&pb.CommonResponse{HeaderMutation: m})); err != nil {
			return err
		}
	}
	if len(piece) == 0 && !last {
		return nil
	}
	return w.send(answerPiece(piece, last))
}

// finish ends the answer. The gateway ends the stream.
func (w *writer) finish() error {
	switch {
	case w.unseen:
		return nil
	case w.stream.Context().Err() != nil: // nothing reads it
		return nil
	}
	w.WriteHeader(http.StatusOK)
	if !w.relays() {
		return ended(w.send(w.immediate()))
	}
	if w.answer.Body == http.NoBody {
		return ended(w.flush(nil, false))
	}
	if !w.trailing {
		return ended(w.flush(w.kept, true))
	}
	err := w.flush(w.kept, false)
	if err == nil {
		err = w.send(&pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseTrailers{ResponseTrailers: &pb.TrailersResponse{}}})
	}
	return ended(err)
}

// ended drops the error of a gateway that has left.
func ended(err error) error {
	if err == errLeft {
		return nil
	}
	return err
}

// headerDropped carries the reason of a refusal, like in pickers of the Gateway API Inference Extension.
const headerDropped = "x-llm-d-request-dropped-reason"

// immediate returns the router's own answer as a message.
func (w *writer) immediate() *pb.ProcessingResponse {
	m := mutation(nil, w.header, nil)
	if reason := droppedFor(w.header.Get(access.HeaderReason)); reason != "" {
		m.SetHeaders = append(m.SetHeaders, set(headerDropped, reason))
	}
	if len(w.kept) > 0 {
		m.SetHeaders = append(m.SetHeaders, set("content-length", strconv.Itoa(len(w.kept))))
	}
	body := w.kept
	if w.method == http.MethodHead {
		body = nil
	}
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ImmediateResponse{ImmediateResponse: &pb.ImmediateResponse{
		Status: &typepb.HttpStatus{Code: typepb.StatusCode(w.status)}, Headers: m, Body: body, Details: "gearshift",
	}}}
}
