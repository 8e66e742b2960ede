package serving_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"gearshift/serving"
)

// spanned is a server that is traced, and what its replicas were asked.
func spanned(t *testing.T, rt transport, sampler sdk.Sampler, change ...func(*serving.Options)) (*rig, *tracetest.InMemoryExporter, *[]http.Header) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans), sdk.WithSampler(sampler))
	var asked []http.Header
	change = append(change, func(o *serving.Options) { o.Tracer = provider.Tracer("test") })
	return newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.Header)
		return rt(r)
	}), change...), spans, &asked
}

// named finds the one span of the name.
func named(t *testing.T, spans *tracetest.InMemoryExporter, name string) (tracetest.SpanStub, map[string]string) {
	t.Helper()
	var names []string
	for _, x := range spans.GetSpans() {
		if names = append(names, x.Name); x.Name == name {
			attributes := map[string]string{}
			for _, a := range x.Attributes {
				attributes[string(a.Key)] = a.Value.String()
			}
			return x, attributes
		}
	}
	t.Fatalf("no span %q; there are %q", name, names)
	return tracetest.SpanStub{}, nil
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
	stream  = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":4}}\n\ndata: [DONE]\n\n"
)

func TestSpansTellOfARequest(t *testing.T) {
	g, spans, asked := spanned(t, says(http.StatusOK, eventType, stream), sdk.AlwaysSample())
	const secret = "xylophone"
	w := g.do("POST", chat, strings.Replace(ask, "hi", secret, 1), "traceparent", parent, "tracestate", "vendor=1", "x-request-id", "mine", "x-gearshift-explain", "1")
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	server, attributes := named(t, spans, "POST "+chat)
	if server.SpanKind != trace.SpanKindServer || server.SpanContext.TraceID().String() != traceID || server.Parent.SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("the request's span: kind %v, trace %v, parent %v", server.SpanKind, server.SpanContext.TraceID(), server.Parent.SpanID())
	}
	for name, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "auto", "gen_ai.response.model": "small", "gen_ai.usage.output_tokens": "4",
		"http.response.status_code": "200", "http.route": chat, "gearshift.request_id": "mine", "gearshift.task": "chat", "gearshift.variant": "small",
		"gearshift.replica": "small@a", "gearshift.host": "a", "gearshift.policy": "wants@3", "gearshift.outcome": "completed",
		"gearshift.attempts": "1", "gearshift.deadline_ms": "40", "gearshift.deadline_met": "true", "gearshift.utility": "0.5",
	} {
		if attributes[name] != want {
			t.Errorf("%s is %q, want %q", name, attributes[name], want)
		}
	}
	if attributes["gen_ai.response.time_to_first_chunk"] == "" {
		t.Error("no time to the first chunk")
	}
	decide, why := named(t, spans, "decide")
	if decide.Parent.SpanID() != server.SpanContext.SpanID() || decide.EndTime.Before(decide.StartTime) || why["gearshift.policy"] != "wants@3" || why["gearshift.in_flight"] != "0" {
		t.Errorf("the decision's span: %+v, %v", decide, why)
	}
	attempt, of := named(t, spans, "chat small")
	if attempt.SpanKind != trace.SpanKindClient || attempt.Parent.SpanID() != server.SpanContext.SpanID() || of["http.response.status_code"] != "200" || of["gen_ai.request.model"] != "small" {
		t.Errorf("the attempt's span: %+v, %v", attempt, of)
	}
	// The replica gets the attempt's own context, and the vendor's state.
	want := "00-" + traceID + "-" + attempt.SpanContext.SpanID().String() + "-01"
	if h := (*asked)[0]; h.Get("Traceparent") != want || h.Get("Tracestate") != "vendor=1" {
		t.Errorf("the replica got %q and %q, want %q", h.Get("Traceparent"), h.Get("Tracestate"), want)
	}
	for _, x := range spans.GetSpans() {
		for _, a := range x.Attributes {
			if strings.Contains(a.Value.String(), secret) {
				t.Errorf("%s has text of the prompt: %s=%s", x.Name, a.Key, a.Value.String())
			}
		}
	}
}

func TestSpansTellOfFaults(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	var n int
	g, spans, _ := spanned(t, func(*http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return nil, refused
		}
		return nil, errors.New("connection reset")
	}, sdk.AlwaysSample(), func(o *serving.Options) { o.Config.Retries.Max = 1 })
	if w := g.do("POST", chat, ask); w.Code != http.StatusBadGateway {
		t.Fatal(w.Code, w.Body)
	}
	_, attributes := named(t, spans, "POST "+chat)
	if attributes["gearshift.attempts"] != "2" || attributes["error.type"] != "upstream_unavailable" || attributes["gearshift.outcome"] != "failed" || attributes["gearshift.deadline_met"] != "false" {
		t.Errorf("attributes %v", attributes)
	}
	var attempts []string
	for _, x := range spans.GetSpans() {
		if x.Name == "chat small" {
			attempts = append(attempts, x.Status.Description)
		}
	}
	if !slices.Equal(attempts, []string{refused.Error(), "connection reset"}) {
		t.Errorf("attempts %q", attempts)
	}
	spans.Reset()
	g.do("POST", chat, `{"model":"huge"}`)
	if _, attributes = named(t, spans, "POST "+chat); attributes["gearshift.outcome"] != "refused" || attributes["http.response.status_code"] != "404" || attributes["gen_ai.request.model"] != "huge" {
		t.Errorf("of a refused request %v", attributes)
	}
}

// What the client decided not to record is not, but its context goes on.
func TestUnsampledTracesGoOn(t *testing.T) {
	g, spans, asked := spanned(t, says(http.StatusOK, jsonType, fine), sdk.ParentBased(sdk.AlwaysSample()))
	g.do("POST", chat, ask, "traceparent", strings.TrimSuffix(parent, "01")+"00")
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans recorded", n)
	}
	if got := (*asked)[0].Get("Traceparent"); !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, "-00") {
		t.Errorf("the replica got %q", got)
	}
}

// With tracing off, what the client sends passes through unharmed.
func TestTraceContextPassesThrough(t *testing.T) {
	var got http.Header
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(fine))), nil
	}))
	g.do("POST", chat, ask, "traceparent", parent, "tracestate", "vendor=1", "baggage", "a=b")
	if got.Get("Traceparent") != parent || got.Get("Tracestate") != "vendor=1" || got.Get("Baggage") != "a=b" {
		t.Errorf("the replica got %v", got)
	}
}
