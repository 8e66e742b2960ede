package app

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"gearshift/serving/config"
)

// collector keeps what it is sent.
type collector struct {
	mu    sync.Mutex
	paths []string
	text  string
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	all, _ := io.ReadAll(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = append(c.paths, r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Team"))
	c.text += string(all)
}

// export makes one span and closes the provider.
func export(t *testing.T, c config.Tracing) {
	t.Helper()
	p, err := newTracing(t.Context(), c, "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer().Start(t.Context(), "the span's name")
	span.End()
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_SERVICE_NAME"} {
		t.Setenv(name, "")
	}
	for _, name := range []string{"ENDPOINT", "PROTOCOL", "HEADERS", "COMPRESSION", "TIMEOUT", "CERTIFICATE", "CLIENT_CERTIFICATE"} {
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_"+name, "")
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, "")
	}
}

func TestSpansReachTheCollector(t *testing.T) {
	unset(t)
	var c collector
	server := httptest.NewServer(&c)
	defer server.Close()
	export(t, config.Tracing{Endpoint: server.URL + "/", Sample: 1})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=gears%20and%20more, x-other=1")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_SERVICE_NAME", "router-7")
	export(t, config.Tracing{Sample: 1})
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/elsewhere")
	export(t, config.Tracing{Sample: 1})
	want := []string{"/v1/traces application/x-protobuf ", "/v1/traces application/x-protobuf gears and more", "/elsewhere application/x-protobuf gears and more"}
	if !slices.Equal(c.paths, want) {
		t.Errorf("the collector got %q, want %q", c.paths, want)
	}
	for _, want := range []string{"the span's name", "gearshift", "1.2.3", "router-7"} {
		if !strings.Contains(c.text, want) {
			t.Errorf("nothing sent has %q", want)
		}
	}
}

// A share of none records none, but for what a client has decided to record.
func TestASampleOfTraces(t *testing.T) {
	unset(t)
	p, err := newTracing(t.Context(), config.Tracing{Endpoint: "http://localhost:1", Sample: 0}, "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close(slog.New(slog.DiscardHandler))
	if _, span := p.Tracer().Start(t.Context(), "ours"); span.IsRecording() {
		t.Error("a span of no share is recorded")
	}
	theirs := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
	if _, span := p.Tracer().Start(theirs, "theirs"); !span.IsRecording() {
		t.Error("a span that the client records is not")
	}
}

func TestNoCollectorNoTracer(t *testing.T) {
	unset(t)
	off := func(c config.Tracing) bool {
		t.Helper()
		p, err := newTracing(t.Context(), c, "1.2.3", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p.close(slog.New(slog.DiscardHandler)) // of nothing
		return p.Tracer() == nil
	}
	if !off(config.Tracing{Sample: 1}) {
		t.Error("there is a tracer without a collector")
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if !off(config.Tracing{Endpoint: "http://localhost:1", Sample: 1}) {
		t.Error("there is a tracer with the SDK disabled")
	}
}

func TestFaultsOfTheEnvironment(t *testing.T) {
	for name, want := range map[string]string{
		"PROTOCOL=grpc": "want http/protobuf", "TIMEOUT=soon": "number of milliseconds",
		"ENDPOINT=collector:4318": "is no URL", "CERTIFICATE=/no/such": "no such file", "CLIENT_CERTIFICATE=/no/such": "no such file",
	} {
		unset(t)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
		key, value, _ := strings.Cut(name, "=")
		t.Setenv("OTEL_EXPORTER_OTLP_"+key, value)
		if _, err := newTracing(t.Context(), config.Tracing{Sample: 1}, "1.2.3", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot trace: ") {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

// A collector that is busy is asked again, after the time that it names.
func TestABusyCollectorIsAskedAgain(t *testing.T) {
	unset(t)
	var asked int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.Header().Set("Retry-After", strconv.Itoa(asked*5))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	c, err := newTraceClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	c.wait = func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}
	if err := c.UploadTraces(t.Context(), nil); err != nil || asked != 3 || len(waits) != 2 || waits[0] != 5*time.Second || waits[1] != 10*time.Second {
		t.Errorf("error %v after %d messages with waits of %v", err, asked, waits)
	}
	_ = c.Stop(t.Context())
}

// What a collector will not take costs a line in the log and no more.
func TestACollectorThatRefuses(t *testing.T) {
	unset(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var log strings.Builder
	p, err := newTracing(t.Context(), config.Tracing{Endpoint: server.URL, Sample: 1}, "1.2.3", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer().Start(t.Context(), "lost")
	span.End()
	err = p.Shutdown(t.Context())
	otel.Handle(errors.New("more of it"))
	if n := strings.Count(log.String(), "cannot send spans"); n != 1 || !strings.Contains(log.String(), "404") {
		t.Errorf("%d lines: %s (closed with %v)", n, log.String(), err)
	}
}

// A collector that is away may take all the time that the end leaves for the last spans, which
// is not taken for something that hangs.
func TestTheEndWaitsForTheLastSpans(t *testing.T) {
	if d := (traces{}).endsWithin(); d != 0 {
		t.Errorf("without a collector the end waits %v", d)
	}
	config := config.DefaultTracing()
	config.Endpoint = "http://127.0.0.1:1"
	with, err := newTracing(t.Context(), config, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	with.close(slog.New(slog.DiscardHandler))
	if took, most := time.Since(start), with.endsWithin(); most != lastSpans || took > most {
		t.Errorf("the last spans took %v of %v", took, most)
	}
}
