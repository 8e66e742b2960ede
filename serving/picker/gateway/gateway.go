// Package gateway is an HTTP proxy that asks an external processor (ext_proc) for the endpoint of each request, like
// Envoy in the mode of the Endpoint Picker Protocol: full-duplex streaming. It drives a picker in tests and
// measurements; the router does not include it.
package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Gateway is a proxy. Set Picker and Transport; the zero value of the rest is ready to use, by any goroutine.
type Gateway struct {
	Picker pb.ExternalProcessorClient
	// Transport sends requests to the endpoints that are picked.
	Transport http.RoundTripper
	// Subset, if not nil, lists the endpoints that may be picked.
	Subset []string
	// Blind leaves out the answer's phase, like NGINX Gateway Fabric: the stream ends with the pick.
	Blind bool
	// Silent leaves out Envoy's report of its modes, like versions before 1.33.
	Silent bool
	// Piece is the size of the pieces of bodies; 0 is Envoy's usual 16 KiB.
	Piece int
	// Twice ends the stream of a request's body twice, as Envoy may (envoy #46237).
	Twice bool
	// Local keeps the gateway's own answers, such as to unreachable endpoints, from the processor, like Envoy from 1.34.
	Local bool
	// Failed, if set, is called with the error of each exchange that fails, from any goroutine.
	Failed func(error)
}

// errDropped reports that the processor ended an exchange without an answer.
var errDropped = errors.New("the processor ended the stream")

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x, err := g.begin(ctx, cancel, r)
	if err == nil {
		err = x.serve(w, r)
	}
	if err != nil && g.Failed != nil {
		g.Failed(err)
	}
	switch {
	case err == nil:
	case x != nil && x.begun:
		panic(http.ErrAbortHandler)
	default: // Envoy's answer if the processor fails
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// exchange is one request.
type exchange struct {
	*Gateway
	ctx    context.Context
	cancel context.CancelFunc
	stream pb.ExternalProcessor_ProcessClient
	begun  bool // the client has the answer's header
}

// begin opens the stream and sends the request's header.
func (g *Gateway) begin(ctx context.Context, cancel context.CancelFunc, r *http.Request) (*exchange, error) {
	stream, err := g.Picker.Process(ctx)
	if err != nil {
		return nil, err
	}
	x := &exchange{Gateway: g, ctx: ctx, cancel: cancel, stream: stream}
	r.Header.Set("X-Forwarded-Proto", "http")
	h := fields(r.Header, pseudo{":method", r.Method}, pseudo{":path", r.URL.RequestURI()}, pseudo{":authority", r.Host}, pseudo{":scheme", "http"})
	m := &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestHeaders{RequestHeaders: &pb.HttpHeaders{Headers: h, EndOfStream: bodiless(r)}}}
	if !g.Silent {
		m.ProtocolConfig = &pb.ProtocolConfiguration{RequestBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED}
		if g.Blind {
			m.ProtocolConfig.ResponseBodyMode = modepb.ProcessingMode_NONE
		}
	}
	if g.Subset != nil {
		m.MetadataContext = metadata("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", list(g.Subset))
	}
	return x, stream.Send(m)
}

func bodiless(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// Pick holds a request's endpoints and the message that they get.
type Pick struct {
	// Endpoints are tried in this order.
	Endpoints []string
	Header    http.Header
	Path      string
	Body      []byte
	// Now, if not nil, is an immediate answer in place of a pick.
	Now *pb.ImmediateResponse
}

// Ask returns the pick for a request, whose answer the picker does not see.
func (g *Gateway) Ask(ctx context.Context, r *http.Request) (*Pick, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blind := *g
	blind.Blind = true
	x, err := blind.begin(ctx, cancel, r)
	if err != nil {
		return nil, err
	}
	p, err := x.pick(r)
	if err == nil {
		err = x.stream.CloseSend()
	}
	if err == nil { // the processor then ends the stream too
		if _, end := x.stream.Recv(); end != io.EOF && p.Now == nil {
			err = end
		}
	}
	return p, err
}

// pick asks the processor for an endpoint.
func (x *exchange) pick(r *http.Request) (*Pick, error) {
	sent := make(chan error, 1)
	go func() { sent <- x.sendBody(r) }()
	m, err := x.stream.Recv()
	if err != nil {
		return nil, ended(err)
	}
	if now := m.GetImmediateResponse(); now != nil {
		return &Pick{Now: now}, nil
	}
	head := m.GetRequestHeaders()
	if head == nil {
		return nil, fmt.Errorf("the first answer is a %T; want one to the request's header", m.Response)
	}
	header := apply(r.Header.Clone(), head.GetResponse().GetHeaderMutation())
	if header.Get("X-Forwarded-Proto") == "" {
		return nil, errors.New("the picker removes X-Forwarded-Proto, without which Envoy finds no route")
	}
	to := header.Get("x-gateway-destination-endpoint")
	if meta := m.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()["x-gateway-destination-endpoint"].GetStringValue(); meta != to {
		return nil, fmt.Errorf("the header picks %q, and the metadata %q", to, meta)
	}
	p := &Pick{Endpoints: strings.Split(to, ","), Header: header, Path: r.URL.RequestURI()}
	if path := header.Get(":path"); path != "" {
		p.Path = path
	}
	header.Del(":path")
	if p.Body, err = x.body(r); err != nil {
		return nil, err
	}
	return p, <-sent
}

// serve has the request answered.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) error {
	p, err := x.pick(r)
	if err != nil {
		return err
	}
	if p.Now != nil {
		immediate(w, p.Now)
		return nil
	}
	answer, by, err := x.forward(r.Method, p)
	if x.Blind {
		if err := x.stream.CloseSend(); err != nil {
			return err
		}
		return x.plain(w, answer, err)
	}
	if err != nil {
		answer, by = unreachable(err), ""
	}
	defer answer.Body.Close()
	if err != nil && x.Local {
		return errors.Join(x.stream.CloseSend(), x.plain(w, answer, nil))
	}
	return x.answer(w, answer, by)
}

// sendBody sends the request's body in pieces.
func (x *exchange) sendBody(r *http.Request) error {
	if bodiless(r) {
		return nil
	}
	err := x.pieces(r.Body, func(piece []byte, last bool) error {
		return x.stream.Send(&pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestBody{RequestBody: &pb.HttpBody{Body: piece, EndOfStream: last}}})
	})
	if err == nil && x.Twice {
		err = x.stream.Send(&pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestBody{RequestBody: &pb.HttpBody{EndOfStream: true}}})
	}
	return err
}

// pieces splits the text read into pieces, and marks the last one.
func (x *exchange) pieces(from io.Reader, send func(piece []byte, last bool) error) error {
	size := x.Piece
	if size == 0 {
		size = 16 << 10
	}
	buffer := make([]byte, size)
	for {
		n, err := from.Read(buffer)
		if err != nil && err != io.EOF {
			return err
		}
		if n > 0 || err == io.EOF {
			if err := send(buffer[:n], err == io.EOF); err != nil {
				return ended(err)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// body collects the request's body as the processor sends it back.
func (x *exchange) body(r *http.Request) (body []byte, err error) {
	for last := bodiless(r); !last; {
		m, err := x.stream.Recv()
		if err != nil {
			return nil, ended(err)
		}
		piece := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if piece == nil {
			return nil, fmt.Errorf("an answer to the body is a %T; want a streamed piece", m.Response)
		}
		if len(piece.Body) > 64<<10 {
			return nil, fmt.Errorf("a piece of %d bytes; Envoy takes at most 65,536", len(piece.Body))
		}
		body, last = append(body, piece.Body...), piece.EndOfStream
	}
	return body, nil
}

// forward sends the request to the first endpoint that can be reached.
func (x *exchange) forward(method string, p *Pick) (answer *http.Response, by string, err error) {
	for _, by = range p.Endpoints {
		var out *http.Request
		out, err = http.NewRequestWithContext(x.ctx, method, "http://"+by+p.Path, bytes.NewReader(p.Body))
		if err != nil {
			return nil, "", err
		}
		out.Header = p.Header
		if answer, err = x.Transport.RoundTrip(out); err == nil {
			return answer, by, nil
		}
	}
	return nil, "", err
}

// unreachable returns Envoy's answer if no endpoint can be reached.
func unreachable(err error) *http.Response {
	text := "upstream connect error: " + err.Error()
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"text/plain"}, "Content-Length": {strconv.Itoa(len(text))}}, Body: io.NopCloser(strings.NewReader(text))}
}

// ended returns the error of a stream that the processor has ended.
func ended(err error) error {
	if err == io.EOF {
		return errDropped
	}
	return err
}

// metadata returns metadata with one entry in a namespace.
func metadata(space, key string, v *structpb.Value) *corepb.Metadata {
	return &corepb.Metadata{FilterMetadata: map[string]*structpb.Struct{space: {Fields: map[string]*structpb.Value{key: v}}}}
}

func list(values []string) *structpb.Value {
	l := &structpb.ListValue{}
	for _, v := range values {
		l.Values = append(l.Values, structpb.NewStringValue(v))
	}
	return structpb.NewListValue(l)
}
