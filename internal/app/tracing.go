package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"gearshift/serving/config"
	"gearshift/serving/config/setting"
)

// traces makes spans and sends them to a collector. The zero value makes none.
type traces struct{ *sdk.TracerProvider }

// lastSpans bounds the wait for a collector at the end.
const lastSpans = 5 * time.Second

// instrumentation names who made a span.
const instrumentation = "gearshift/serving"

// newTracing makes the traces that the configuration and the environment ask for, the zero
// value if they name no collector. What cannot be sent is reported in the log, now and
// then; requests never wait for it.
func newTracing(ctx context.Context, c config.Tracing, version string, log *slog.Logger) (traces, error) {
	if !asked(c) {
		return traces{}, nil
	}
	to, err := newTraceClient(c.Endpoint)
	if err != nil {
		return traces{}, fmt.Errorf("cannot trace: %w", err)
	}
	exporter, err := otlptrace.New(ctx, to)
	if err != nil {
		return traces{}, fmt.Errorf("cannot trace: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: log, limit: rate.NewLimiter(rate.Every(10*time.Second), 1)})
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "gearshift"), attribute.String("service.version", version)),
		resource.WithFromEnv()) // last, so that it decides
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return traces{}, fmt.Errorf("cannot trace: %w", err)
	}
	options := []sdk.TracerProviderOption{sdk.WithBatcher(exporter), sdk.WithResource(about)}
	if c.Sample < 1 {
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.Sample))))
	}
	return traces{sdk.NewTracerProvider(options...)}, nil
}

// asked says whether spans are to go anywhere.
func asked(c config.Tracing) bool {
	if strings.EqualFold(setting.Env("OTEL_SDK_DISABLED"), "true") || setting.Env("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return c.Endpoint != "" || otlp("ENDPOINT") != ""
}

// Tracer makes the spans; nil for the zero value.
func (t traces) Tracer() trace.Tracer {
	if t.TracerProvider == nil {
		return nil
	}
	return t.TracerProvider.Tracer(instrumentation)
}

// close sends the last spans.
func (t traces) close(log *slog.Logger) {
	if t.TracerProvider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := t.Shutdown(ctx); err != nil {
		log.Warn("spans are lost", "error", fmt.Errorf("cannot send the last spans: %w", err))
	}
}

// endsWithin returns how long close may take.
func (t traces) endsWithin() time.Duration {
	if t.TracerProvider == nil {
		return 0
	}
	return lastSpans
}

// complaints log what OpenTelemetry cannot do, seldom.
type complaints struct {
	log   *slog.Logger
	limit *rate.Limiter
}

// Handle implements [otel.ErrorHandler].
func (c *complaints) Handle(err error) {
	if c.limit.Allow() {
		c.log.Warn("cannot send spans", "error", err)
	}
}
