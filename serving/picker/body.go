package picker

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// mostPiece bounds the pieces in which bodies return to the gateway, in bytes: Envoy takes no larger ones.
const mostPiece = 62_000

var pieces = sync.Pool{New: func() any { return new([mostPiece]byte) }}

// body is a request's or an answer's as the gateway sends it.
type body struct {
	*exchange
	ctx  context.Context
	late <-chan struct{} // closed once the body has taken too long; nil: it may take any time
	// take returns the piece that a message has of the body, and reports whether it is the last. A message of something
	// else has none.
	take  func(m *pb.ProcessingRequest) (piece []byte, last bool)
	rest  []byte
	ended bool
}

// ofRequest is the take of a request's body.
func (x *exchange) ofRequest(m *pb.ProcessingRequest) (piece []byte, last bool) {
	if m.GetRequestTrailers() != nil {
		x.trailers = true
		return nil, true
	}
	in := m.GetRequestBody()
	return in.GetBody(), in.GetEndOfStream()
}

// ofAnswer is the take of an answer's body.
func (x *exchange) ofAnswer(m *pb.ProcessingRequest) (piece []byte, last bool) {
	if m.GetResponseTrailers() != nil {
		x.trailing = true
		return nil, true
	}
	in := m.GetResponseBody()
	return in.GetBody(), in.GetEndOfStream()
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		m, err := b.next(b.ctx, b.late)
		switch {
		case err == io.EOF: // the stream ended within the body
			b.cut = true
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		case b.answer == nil && m.GetResponseHeaders() != nil:
			b.early = m
			return 0, errAnswered
		}
		b.rest, b.ended = b.take(m)
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if b.ended && len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// errAnswered ends the reading of a request that was answered before its end.
var errAnswered = errors.New("the replica answered before the request's end")

// deadline limits the time until a request's body has come. Its methods may be called from any goroutine.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	once  sync.Once
	over  chan struct{}
}

// set ends reads at t; the zero time: never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() { d.once.Do(func() { close(d.over) }) })
	}
}

// Close implements [io.Closer].
func (b *body) Close() error { return nil }

// streamed returns the message that carries a piece of a body to the gateway.
func streamed(piece []byte, last bool) *pb.BodyResponse {
	return &pb.BodyResponse{Response: &pb.CommonResponse{BodyMutation: &pb.BodyMutation{
		Mutation: &pb.BodyMutation_StreamedResponse{StreamedResponse: &pb.StreamedBodyResponse{Body: piece, EndOfStream: last}},
	}}}
}

func requestPiece(piece []byte, last bool) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestBody{RequestBody: streamed(piece, last)}}
}

func answerPiece(piece []byte, last bool) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseBody{ResponseBody: streamed(piece, last)}}
}

func answerHead(c *pb.CommonResponse) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseHeaders{ResponseHeaders: &pb.HeadersResponse{Response: c}}}
}
