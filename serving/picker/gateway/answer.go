package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// answer passes an endpoint's answer through the processor to the client.
func (x *exchange) answer(w http.ResponseWriter, a *http.Response, by string) error {
	head := &pb.ProcessingRequest{
		Request: &pb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &pb.HttpHeaders{Headers: fields(a.Header, pseudo{":status", strconv.Itoa(a.StatusCode)}), EndOfStream: a.Body == http.NoBody}},
	}
	if by != "" {
		head.MetadataContext = metadata("envoy.lb", "x-gateway-destination-endpoint-served", structpb.NewStringValue(by))
	}
	if err := x.stream.Send(head); err != nil {
		return ended(err)
	}
	sent := make(chan error, 1)
	go func() { sent <- x.sendAnswer(a) }()
	for {
		m, err := x.stream.Recv()
		if err != nil {
			return ended(err)
		}
		switch {
		case m.GetImmediateResponse() != nil:
			if x.begun {
				return fmt.Errorf("an immediate answer after the answer's header")
			}
			immediate(w, m.GetImmediateResponse())
			return nil
		case m.GetResponseHeaders() != nil:
			h := apply(a.Header.Clone(), m.GetResponseHeaders().GetResponse().GetHeaderMutation())
			copyHeader(w.Header(), h)
			w.WriteHeader(a.StatusCode)
			x.begun = true
			if a.Body == http.NoBody {
				return <-sent
			}
		default:
			piece := m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			if piece == nil || !x.begun {
				return fmt.Errorf("an answer to the body is a %T; want a streamed piece after the header", m.Response)
			}
			if _, err := w.Write(piece.Body); err != nil {
				return err
			}
			http.NewResponseController(w).Flush()
			if piece.EndOfStream {
				if err := x.stream.CloseSend(); err != nil {
					return err
				}
				return <-sent
			}
		}
	}
}

// sendAnswer sends the answer's body in pieces. If the endpoint breaks off it resets the stream, as Envoy does.
func (x *exchange) sendAnswer(a *http.Response) error {
	if a.Body == http.NoBody {
		return nil
	}
	err := x.pieces(a.Body, func(piece []byte, last bool) error {
		return x.stream.Send(&pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseBody{ResponseBody: &pb.HttpBody{Body: piece, EndOfStream: last}}})
	})
	if err != nil {
		x.cancel()
	}
	return err
}

// plain writes an answer that the processor does not see.
func (x *exchange) plain(w http.ResponseWriter, a *http.Response, err error) error {
	if err != nil {
		a = unreachable(err)
	}
	defer a.Body.Close()
	copyHeader(w.Header(), a.Header)
	w.WriteHeader(a.StatusCode)
	x.begun = true
	buffer := make([]byte, 16<<10)
	for {
		n, err := a.Body.Read(buffer)
		if _, bad := w.Write(buffer[:n]); bad != nil {
			return bad
		}
		http.NewResponseController(w).Flush()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Refuse writes the processor's own answer.
func (p *Pick) Refuse(w http.ResponseWriter) { immediate(w, p.Now) }

// immediate writes the processor's own answer.
func immediate(w http.ResponseWriter, now *pb.ImmediateResponse) {
	h := http.Header{"Content-Type": {"text/plain"}}
	copyHeader(w.Header(), apply(h, now.Headers))
	w.WriteHeader(int(now.GetStatus().GetCode()))
	_, _ = w.Write(now.Body)
}

// pseudo is a header field of HTTP/2 for the first line of a message.
type pseudo struct{ name, value string }

// fields encodes a header like Envoy: names in lower case, values as bytes.
func fields(h http.Header, first ...pseudo) *corepb.HeaderMap {
	m := &corepb.HeaderMap{}
	for _, p := range first {
		m.Headers = append(m.Headers, &corepb.HeaderValue{Key: p.name, RawValue: []byte(p.value)})
	}
	for name, values := range h {
		for _, v := range values {
			m.Headers = append(m.Headers, &corepb.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(v)})
		}
	}
	return m
}

// apply applies the processor's changes to a header in Envoy's order: removals first.
func apply(h http.Header, m *pb.HeaderMutation) http.Header {
	for _, name := range m.GetRemoveHeaders() {
		h.Del(name)
	}
	for _, f := range m.GetSetHeaders() {
		name, value := f.GetHeader().GetKey(), string(f.GetHeader().GetRawValue())
		if f.GetAppendAction() == corepb.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
			h.Add(name, value)
		} else {
			h.Set(name, value)
		}
	}
	return h
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		if name != "Transfer-Encoding" && name != "Connection" {
			to[name] = values
		}
	}
}
