package serverapp

import (
	"context"
	"log/slog"
	"time"

	"gearshift/serving/config"
	"gearshift/serving/tracing"
)

// lastSpans bounds the wait for a collector at the end.
const lastSpans = 5 * time.Second

type traces struct{ tracing.Provider }

func newTracing(ctx context.Context, c config.Tracing, version string, log *slog.Logger) (traces, error) {
	p, err := tracing.New(ctx, tracing.Config{Endpoint: c.Endpoint, Sample: c.Sample, Version: version}, log)
	return traces{p}, err
}

// close sends the last spans.
func (t traces) close(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		log.Warn("spans are lost", "error", err)
	}
}

// endsWithin is how long close may take.
func (t traces) endsWithin() time.Duration {
	if t.Tracer() == nil {
		return 0
	}
	return lastSpans
}
