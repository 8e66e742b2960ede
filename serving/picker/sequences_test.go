package picker_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"gearshift/serving/work"
)

// The messages of a gateway, as short as a test needs them.

func header(end bool, fields ...string) *pb.HttpHeaders {
	m := &corepb.HeaderMap{}
	for i := 0; i < len(fields); i += 2 {
		m.Headers = append(m.Headers, &corepb.HeaderValue{Key: fields[i], RawValue: []byte(fields[i+1])})
	}
	return &pb.HttpHeaders{Headers: m, EndOfStream: end}
}

func asks(end bool) *pb.ProcessingRequest {
	h := header(end, ":method", "POST", ":path", chat, ":authority", "models", "content-type", "application/json", "x-request-id", "r-1")
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestHeaders{RequestHeaders: h}}
}

func body(text string, end bool) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestBody{RequestBody: &pb.HttpBody{Body: []byte(text), EndOfStream: end}}}
}

func answers(end bool, fields ...string) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseHeaders{ResponseHeaders: header(end, fields...)}}
}

func said(text string, end bool) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseBody{ResponseBody: &pb.HttpBody{Body: []byte(text), EndOfStream: end}}}
}

var (
	askTrailers    = &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestTrailers{RequestTrailers: &pb.HttpTrailers{}}}
	answerTrailers = &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseTrailers{ResponseTrailers: &pb.HttpTrailers{}}}
)

// reply summarises an answer of the picker.
func reply(m *pb.ProcessingResponse) string {
	piece := func(kind string, b *pb.BodyResponse) string {
		p := b.GetResponse().GetBodyMutation().GetStreamedResponse()
		text := fmt.Sprintf("%s %d", kind, len(p.GetBody()))
		if p.GetEndOfStream() {
			text += " end"
		}
		return text
	}
	switch r := m.Response.(type) {
	case *pb.ProcessingResponse_RequestHeaders:
		return "pick"
	case *pb.ProcessingResponse_RequestBody:
		return piece("body", r.RequestBody)
	case *pb.ProcessingResponse_RequestTrailers:
		return "trailers"
	case *pb.ProcessingResponse_ResponseHeaders:
		return "answer"
	case *pb.ProcessingResponse_ResponseBody:
		return piece("said", r.ResponseBody)
	case *pb.ProcessingResponse_ResponseTrailers:
		return "answer trailers"
	case *pb.ProcessingResponse_ImmediateResponse:
		return fmt.Sprintf("immediate %d", r.ImmediateResponse.Status.Code)
	}
	return fmt.Sprintf("%T", m.Response)
}

// play sends a gateway's messages and returns the replies. The answer's messages go out once the request's have been
// answered.
func play(t *testing.T, g *rig, list ...*pb.ProcessingRequest) (heard []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stream, err := g.client.Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	picked := false
	hear := func() bool {
		var m *pb.ProcessingResponse
		if m, err = stream.Recv(); err != nil {
			return false
		}
		heard = append(heard, reply(m))
		last := heard[len(heard)-1]
		picked = picked || strings.HasSuffix(last, " end") || last == "trailers"
		return true
	}
	for _, m := range list {
		if m.GetResponseHeaders() != nil {
			for !picked && hear() {
			}
		}
		if bad := stream.Send(m); bad != nil {
			break // the reason comes with the next message
		}
	}
	if bad := stream.CloseSend(); bad != nil {
		t.Fatal(bad)
	}
	for hear() {
	}
	if err == io.EOF {
		err = nil
	}
	return heard, err
}

// TestSequences compares the replies to a gateway's sequences of messages.
func TestSequences(t *testing.T) {
	ok := []string{":status", "200", "content-type", "application/json"}
	sent := len(ask) + len("served-large") - len("auto")
	long := strings.Replace(ask, "hi", strings.Repeat("a", 130_000), 1)
	buffered := asks(false)
	buffered.ProtocolConfig = &pb.ProtocolConfiguration{RequestBodyMode: modepb.ProcessingMode_BUFFERED}
	for _, c := range []struct {
		name string
		send []*pb.ProcessingRequest
		want []string
		code codes.Code
	}{
		{"one chunk", []*pb.ProcessingRequest{asks(false), body(ask, true), answers(false, ok...), said(fine, true)},
			[]string{"pick", fmt.Sprintf("body %d end", sent), "answer", fmt.Sprintf("said %d end", len(fine))}, 0},
		{"chunks, some empty", []*pb.ProcessingRequest{asks(false), body("", false), body(ask[:9], false), body("", false), body(ask[9:], false), body("", true), answers(false, ok...), said(fine[:5], false), said("", false), said(fine[5:], false), said("", true)},
			[]string{"pick", fmt.Sprintf("body %d end", sent), "answer", fmt.Sprintf("said %d end", len(fine))}, 0},
		{"pieces of at most 62,000 bytes", []*pb.ProcessingRequest{asks(false), body(long, true), answers(false, ok...), said(fine, true)},
			[]string{"pick", "body 62000", "body 62000", fmt.Sprintf("body %d end", len(long)+8-124_000), "answer", fmt.Sprintf("said %d end", len(fine))}, 0},
		{"an answer without a body", []*pb.ProcessingRequest{asks(false), body(ask, true), answers(true, ":status", "400", "content-type", "application/json")},
			[]string{"pick", fmt.Sprintf("body %d end", sent), "answer"}, 0},
		{"two ends of the body", []*pb.ProcessingRequest{asks(false), body(ask, true), body("", true), answers(false, ok...), said(fine, true)},
			[]string{"pick", fmt.Sprintf("body %d end", sent), "answer", fmt.Sprintf("said %d end", len(fine))}, 0},
		{"trailers", []*pb.ProcessingRequest{asks(false), body(ask, false), askTrailers, answers(false, ok...), said(fine, false), answerTrailers},
			[]string{"pick", fmt.Sprintf("body %d", sent), "trailers", "answer", fmt.Sprintf("said %d", len(fine)), "answer trailers"}, 0},
		{"malformed JSON", []*pb.ProcessingRequest{asks(false), body(`{"model":`, true)}, []string{"immediate 400"}, 0},
		{"no body", []*pb.ProcessingRequest{asks(true)}, []string{"immediate 400"}, 0},
		{"a body that ends early", []*pb.ProcessingRequest{asks(false), body(ask[:9], false)}, []string{"immediate 400"}, 0},
		{"no messages", nil, nil, 0},
		{"a body without a header", []*pb.ProcessingRequest{body(ask, true)}, nil, codes.InvalidArgument},
		{"another mode", []*pb.ProcessingRequest{buffered}, nil, codes.FailedPrecondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, nil)
			heard, err := play(t, g, c.send...)
			if fmt.Sprint(heard) != fmt.Sprint(c.want) || status.Code(err) != c.code {
				t.Errorf("told %v, %v; want %v, %v", heard, err, c.want, c.code)
			}
			g.idle(t)
		})
	}
}

// TestAGatewayThatEndsWithThePick keeps the place for the estimate, once no answer has passed from any gateway.
func TestAGatewayThatEndsWithThePick(t *testing.T) {
	g := newRig(t, nil)
	if heard, err := play(t, g, asks(false), body(ask, true)); err != nil || len(heard) != 2 {
		t.Fatalf("told %v, %v", heard, err)
	}
	if n := g.core.Ledger().InFlight(); n != 1 {
		t.Errorf("%d requests in flight after the pick, want 1", n)
	}
	if r := <-g.ended; r.Outcome != work.Completed || !r.Reported {
		t.Errorf("the work ended as %+v, want completed as reported", r)
	}
	g.idle(t)
}

// TestHealth reports the statuses that gateways and Kubernetes probe.
func TestHealth(t *testing.T) {
	g := newRig(t, nil)
	check := func(service string) string {
		r, err := healthpb.NewHealthClient(g.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			return status.Code(err).String()
		}
		return r.Status.String()
	}
	want := func(service, is string) {
		t.Helper()
		if got := check(service); got != is {
			t.Errorf("service %q is %s, want %s", service, got, is)
		}
	}
	for _, service := range []string{"", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"} {
		want(service, "SERVING")
	}
	want("nothing", "NotFound")
	for i := range replicas {
		g.core.Ledger().SetUp(i, false)
	}
	want("liveness", "SERVING")
	want("readiness", "NOT_SERVING")
	want("envoy.service.ext_proc.v3.ExternalProcessor", "NOT_SERVING")

	stream, err := reflectpb.NewServerReflectionClient(g.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || !strings.Contains(m.String(), "envoy.service.ext_proc.v3.ExternalProcessor") {
		t.Errorf("reflection lists %v, %v; want the external processor", m, err)
	}
}
