package picker

import (
	"context"
	"io"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// mostPiece bounds the pieces in which bodies return to the gateway, in bytes: Envoy takes no larger ones.
const mostPiece = 62_000

var pieces = sync.Pool{New: func() any { return new([mostPiece]byte) }}

// requestBody reads the body of the client's request as the gateway sends it.
type requestBody struct {
	*exchange
	ctx   context.Context
	rest  []byte
	ended bool
}

// Read implements [io.Reader].
func (b *requestBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		m, err := b.next(b.ctx)
		if err == io.EOF { // the stream ended within the body
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		if m.GetRequestTrailers() != nil {
			b.ended, b.trailers = true, true
		} else if in := m.GetRequestBody(); in != nil {
			b.rest, b.ended = in.Body, in.EndOfStream
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if b.ended && len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer].
func (b *requestBody) Close() error { return nil }

// answerBody reads the body of the replica's answer as the gateway sends it.
type answerBody struct {
	*exchange
	ctx   context.Context
	rest  []byte
	ended bool
}

// Read implements [io.Reader].
func (b *answerBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		m, err := b.next(b.ctx)
		if err == io.EOF { // it ends with the stream
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		if m.GetResponseTrailers() != nil {
			b.ended, b.trailing = true, true
		} else if in := m.GetResponseBody(); in != nil {
			b.rest, b.ended = in.Body, in.EndOfStream
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if b.ended && len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer].
func (b *answerBody) Close() error { return nil }

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
