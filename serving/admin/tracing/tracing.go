// Package tracing sends the spans of requests to an OpenTelemetry collector, by
// OTLP over HTTP. Nothing else in this module links the exporter.
package tracing

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

	"gearshift/serving/config/setting"
)

// Config says where spans go.
type Config struct {
	// Endpoint is the collector's base URL. Empty: what the environment says.
	Endpoint string
	// Sample is the share of traces recorded of those that no client's context
	// decides for. At 1 the environment may say (OTEL_TRACES_SAMPLER).
	Sample float64
	// Version is that of the program.
	Version string
}

// Provider makes spans and sends them on. The zero value makes none.
type Provider struct{ *sdk.TracerProvider }

// instrumentation names who made a span.
const instrumentation = "gearshift/serving"

// New makes the provider that the configuration and the environment ask for, the
// zero one if they name no collector. What cannot be sent is reported in the log, now
// and then; requests never wait for it.
func New(ctx context.Context, config Config, log *slog.Logger) (Provider, error) {
	if !asked(config) {
		return Provider{}, nil
	}
	c, err := newClient(config.Endpoint)
	if err != nil {
		return Provider{}, fmt.Errorf("cannot trace: %w", err)
	}
	exporter, err := otlptrace.New(ctx, c)
	if err != nil {
		return Provider{}, fmt.Errorf("cannot trace: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: log, limit: rate.NewLimiter(rate.Every(10*time.Second), 1)})
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "gearshift"), attribute.String("service.version", config.Version)),
		resource.WithFromEnv()) // last, so that it decides
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return Provider{}, fmt.Errorf("cannot trace: %w", err)
	}
	options := []sdk.TracerProviderOption{sdk.WithBatcher(exporter), sdk.WithResource(about)}
	if config.Sample < 1 {
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(config.Sample))))
	}
	return Provider{sdk.NewTracerProvider(options...)}, nil
}

// asked says whether spans are to go anywhere.
func asked(c Config) bool {
	if strings.EqualFold(setting.Env("OTEL_SDK_DISABLED"), "true") || setting.Env("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return c.Endpoint != "" || otlp("ENDPOINT") != ""
}

// Tracer makes the spans; nil of the zero Provider.
func (p Provider) Tracer() trace.Tracer {
	if p.TracerProvider == nil {
		return nil
	}
	return p.TracerProvider.Tracer(instrumentation)
}

// Close sends what is left, within the context's time.
func (p Provider) Close(ctx context.Context) error {
	if p.TracerProvider == nil {
		return nil
	}
	if err := p.Shutdown(ctx); err != nil {
		return fmt.Errorf("cannot send the last spans: %w", err)
	}
	return nil
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
