package app

import (
	"log/slog"
	"testing"
	"time"

	"gearshift/serving/config"
)

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
