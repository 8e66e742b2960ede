package picker

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"gearshift/serving/openai/proxy"
)

// exchange handles one request of a gateway, and its answer. Its methods are called by the stream's own goroutine,
// except receive.
type exchange struct {
	picker *Picker
	stream pb.ExternalProcessor_ProcessServer
	frames chan frame // closed at the stream's end
	cancel context.CancelCauseFunc
	config *pb.ProtocolConfiguration // nil: the gateway does not say
	hint   *corepb.Metadata

	method    string
	path      string
	original  http.Header // the request's, as received
	addresses []string    // picked endpoints
	replicas  []int       // their replicas
	bodiless  bool        // the request has no body
	trailers  bool        // trailers follow the request's body, and are answered apart
	picked    bool        // the gateway knows where the request goes
	answer    *http.Response
	trailing  bool                  // the answer has trailers
	cut       bool                  // the stream ended within a body
	early     *pb.ProcessingRequest // the header of an answer that came before the request's end
	unseen    bool

	late deadline // of the request's body
}

// frame is a message of the gateway, or the error of an invalid one.
type frame struct {
	*pb.ProcessingRequest
	err error
}

// framesAhead counts the messages that are received ahead of use.
const framesAhead = 4

// receive queues the gateway's messages until the stream ends. A gateway that shows answers, and ends the stream before
// the answer's end, has left: Envoy half-closes the stream and resets it later.
func (x *exchange) receive(ctx context.Context) {
	defer close(x.frames)
	whole := false
	for {
		m, err := x.stream.Recv()
		whole = whole || answerEnds(m)
		if err != nil && (err != io.EOF || !whole && x.Shows()) {
			x.cancel(errLeft)
		}
		select {
		case x.frames <- frame{m, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// answerEnds reports whether a message is the last of an answer.
func answerEnds(m *pb.ProcessingRequest) bool {
	return m.GetResponseHeaders().GetEndOfStream() || m.GetResponseBody().GetEndOfStream() || m.GetResponseTrailers() != nil
}

// next waits for a message, until late is closed. It returns [io.EOF] after the gateway's last one.
func (x *exchange) next(ctx context.Context, late <-chan struct{}) (*pb.ProcessingRequest, error) {
	select {
	case f, ok := <-x.frames:
		if !ok {
			return nil, io.EOF
		}
		return f.ProcessingRequest, f.err
	case <-late:
		return nil, os.ErrDeadlineExceeded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// request builds the client's request from the first message.
func (x *exchange) request(ctx context.Context, first *pb.ProcessingRequest) (*http.Request, error) {
	in := first.GetRequestHeaders()
	if in == nil {
		return nil, status.Error(codes.InvalidArgument, "the first message has no request headers; set processing_mode.request_header_mode: SEND")
	}
	if c := x.config; c != nil && !in.EndOfStream && c.RequestBodyMode != modepb.ProcessingMode_FULL_DUPLEX_STREAMED {
		return nil, status.Errorf(codes.FailedPrecondition, "request_body_mode is %v; want FULL_DUPLEX_STREAMED", c.RequestBodyMode)
	}
	h := make(http.Header, len(in.Headers.GetHeaders())+2)
	r := &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, ContentLength: -1, Body: http.NoBody}
	for _, f := range in.Headers.GetHeaders() {
		switch value := valueOf(f); f.Key {
		case ":method":
			r.Method = value
		case ":path":
			u, err := url.ParseRequestURI(value)
			if err != nil {
				return nil, status.Errorf(codes.InvalidArgument, "invalid :path %q; want a path such as /v1/chat/completions", value)
			}
			r.URL, r.RequestURI = u, value
		case ":authority", "host":
			r.Host = value
		case "content-length":
			r.ContentLength = lengthOf(value)
		case "transfer-encoding":
		default:
			if !strings.HasPrefix(f.Key, ":") {
				name := http.CanonicalHeaderKey(f.Key)
				h[name] = append(h[name], value)
			}
		}
	}
	if r.URL == nil || r.Method == "" {
		return nil, status.Error(codes.InvalidArgument, "the request headers have no :method or no :path")
	}
	if by, ok := peer.FromContext(ctx); ok {
		r.RemoteAddr = by.Addr.String()
	}
	if x.bodiless = in.EndOfStream; x.bodiless {
		r.ContentLength = 0
	} else {
		r.Body = &body{exchange: x, ctx: ctx, late: x.late.over, take: x.ofRequest}
	}
	x.method, x.path, x.original = r.Method, r.URL.RequestURI(), h.Clone()
	return r.WithContext(ctx), nil
}

// Hidden implements [proxy.Carrier]. It returns the replicas outside the gateway's subset.
func (x *exchange) Hidden() (hidden []int) {
	subset, limited := subsetOf(x.hint)
	if !limited {
		return nil
	}
	for i := range x.picker.Replicas {
		if at := x.picker.Address(i); !slices.ContainsFunc(subset, func(s string) bool { return s == at || s == hostOf(at) }) {
			hidden = append(hidden, i)
		}
	}
	return hidden
}

// Passes implements [proxy.Carrier].
func (x *exchange) Passes(path string) bool { return x.picker.Passes != nil && x.picker.Passes(path) }

// Carry implements [proxy.Carrier].
func (x *exchange) Carry(replicas []int, r *http.Request) (*http.Response, int, error) {
	for _, i := range replicas {
		if at := x.picker.Address(i); at != "" && !slices.Contains(x.addresses, at) {
			x.addresses, x.replicas = append(x.addresses, at), append(x.replicas, i)
		}
	}
	if len(x.addresses) == 0 {
		return nil, -1, proxy.ErrNoServer
	}
	if err := x.send(x.pick(strings.Join(x.addresses, ","), r)); err != nil {
		return nil, -1, err
	}
	x.picked = true
	if err := x.forward(r); err != nil {
		return nil, -1, err
	}
	return x.await(r.Context())
}

// forward sends the request's body to the gateway as the replica is to get it.
func (x *exchange) forward(r *http.Request) error {
	if x.bodiless {
		return nil
	}
	buffer := pieces.Get().(*[mostPiece]byte)
	defer pieces.Put(buffer)
	for {
		n, err := io.ReadFull(r.Body, buffer[:])
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		switch {
		case x.cut:
			return errLeft
		case err == errAnswered: // the replica wants no more of it
			return nil
		case err != nil && !last:
			return err
		}
		if err := x.send(requestPiece(buffer[:n], last && !x.trailers)); err != nil {
			return err
		}
		if last {
			break
		}
	}
	if x.trailers {
		return x.send(&pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestTrailers{RequestTrailers: &pb.TrailersResponse{}}})
	}
	return nil
}

// await waits for the answer's header. A gateway may show no bodies, and headers nevertheless.
func (x *exchange) await(ctx context.Context) (*http.Response, int, error) {
	for m := x.early; ; {
		if in := m.GetResponseHeaders(); in != nil {
			return x.begin(ctx, in, m.MetadataContext)
		}
		// Other messages belong to the request: Envoy may end a long body twice (envoy #46237).
		var err error
		switch m, err = x.next(ctx, nil); {
		case err != nil && !x.Shows(): // also one that keeps the stream open, and takes longer than an answer may
			return x.notSeen()
		case err != nil:
			return nil, -1, errLeft
		}
	}
}

// Shows implements [proxy.Carrier]. A gateway that does not say is taken to show no answers until it has shown one.
func (x *exchange) Shows() bool {
	if x.config != nil {
		return x.config.ResponseBodyMode != modepb.ProcessingMode_NONE
	}
	return x.picker.answered.Load()
}

func (x *exchange) notSeen() (*http.Response, int, error) {
	x.unseen = true
	return nil, -1, proxy.ErrUnseen
}

// begin reads the header of the answer.
func (x *exchange) begin(ctx context.Context, in *pb.HttpHeaders, meta *corepb.Metadata) (*http.Response, int, error) {
	a := &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header, len(in.Headers.GetHeaders())), Body: http.NoBody}
	for _, f := range in.Headers.GetHeaders() {
		if value := valueOf(f); f.Key == ":status" {
			a.StatusCode, _ = strconv.Atoi(value)
		} else if !strings.HasPrefix(f.Key, ":") {
			name := http.CanonicalHeaderKey(f.Key)
			a.Header[name] = append(a.Header[name], value)
		}
	}
	a.Status = strconv.Itoa(a.StatusCode) + " " + http.StatusText(a.StatusCode)
	a.ContentLength = lengthOf(a.Header.Get("Content-Length"))
	by := -1
	if n := slices.Index(x.addresses, servedBy(meta)); n >= 0 {
		by = x.replicas[n]
	}
	x.answer = a
	x.original = a.Header.Clone()
	if x.config == nil {
		x.picker.answered.Store(true)
	}
	switch hides := x.config != nil && x.config.ResponseBodyMode != modepb.ProcessingMode_FULL_DUPLEX_STREAMED; {
	case hides && a.StatusCode < http.StatusBadRequest && !in.EndOfStream:
		if err := x.send(answerHead(&pb.CommonResponse{})); err != nil {
			return nil, by, err
		}
		return x.notSeen()
	case !in.EndOfStream && !hides:
		a.Body = &body{exchange: x, ctx: ctx, take: x.ofAnswer}
	}
	return a, by, nil
}

// send sends a message to the gateway.
func (x *exchange) send(m *pb.ProcessingResponse) error {
	if err := x.stream.Send(m); err != nil {
		return errLeft
	}
	return nil
}

// result returns the metric's label for the end of the exchange.
func (x *exchange) result(err error) string {
	switch {
	case err != nil:
		return resultBroken
	case x.unseen:
		return resultUnseen
	case x.answer != nil:
		return resultAnswered
	case x.picked, x.stream.Context().Err() != nil:
		return resultLeft
	}
	return resultImmediate
}

var _ proxy.Carrier = (*exchange)(nil)
