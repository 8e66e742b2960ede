package config

import (
	"fmt"
	"net/url"

	"gearshift/internal/faults"
)

// Tracing is where spans of requests go. What else there is to an exporter
// (headers, certificates, compression) is said by the environment variables of
// OpenTelemetry.
type Tracing struct {
	// Endpoint is the OTLP collector's base URL, such as http://localhost:4318.
	// Empty: what OTEL_EXPORTER_OTLP_ENDPOINT says and, without that, nowhere.
	Endpoint string `yaml:"endpoint,omitempty"`
	// Sample is the share of traces recorded of those that no client's own context
	// decides for.
	Sample float64 `yaml:"sample"`
}

// DefaultTracing traces all requests, where the environment names a collector.
func DefaultTracing() Tracing { return Tracing{Sample: 1} }

// Validate names every fault of the configuration, by its YAML key.
func (t Tracing) Validate() error {
	var found faults.List
	if u, err := url.Parse(t.Endpoint); t.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		found.Add(fmt.Errorf("tracing.endpoint: %q is no URL of a collector; want one such as http://localhost:4318", t.Endpoint))
	}
	found.If(!(t.Sample >= 0 && t.Sample <= 1), "tracing.sample: %v must be from 0 to 1", t.Sample)
	return found.Err()
}
