package config

import (
	"errors"
	"fmt"
	"time"

	"gearshift/serving/remote"
	"gearshift/serving/trial"
)

// Steering is what operators set for clients and for themselves, beside the
// admin listener.
type Steering struct {
	// KeysFile holds the keys of those who may ask, see [keys.Parse]. Empty
	// lets anyone ask.
	KeysFile string `yaml:"keys_file,omitempty"`
	// UsageFile keeps what keys have used of their token budgets over a restart. Empty:
	// they begin from zero then.
	UsageFile string `yaml:"usage_file,omitempty"`
	// TLS encrypts the clients' connections.
	TLS TLS `yaml:"tls,omitempty"`
	// Metrics says who sees /metrics on the clients' port: MetricsKey, MetricsOpen or
	// MetricsOff.
	Metrics string `yaml:"metrics"`
	// TrustedProxies are the addresses and networks of the proxies whose X-Forwarded-For
	// names the client.
	TrustedProxies []string `yaml:"trusted_proxies,omitempty"`
	// MaxHeader bounds the header of a request, in bytes.
	MaxHeader int `yaml:"-"`
	// HeaderTimeout bounds the arrival of a request's header.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// Watch is how often files are looked at for changes; zero is never.
	Watch time.Duration `yaml:"watch"`
	// Trial is what happens to a policy on trial without an order.
	Trial trial.Config `yaml:"trial"`
}

// What [Steering] can say of metrics.
const (
	// MetricsKey asks for an API key where keys are configured.
	MetricsKey = "key"
	// MetricsOpen shows them to anyone.
	MetricsOpen = "open"
	// MetricsOff leaves them to the admin listener.
	MetricsOff = "off"
)

// DefaultSteering lets anyone ask, unencrypted, and takes changes of files.
func DefaultSteering() Steering {
	return Steering{
		Metrics: MetricsKey, MaxHeader: 64 << 10, HeaderTimeout: 10 * time.Second,
		Watch: time.Second, Trial: trial.Config{MinRequests: 500},
	}
}

// minHeader is the least bound on a header: a usual browser's has some 2 KiB.
const minHeader = 4 << 10

// minWatch is the shortest time between two looks at files, in which one that
// stands still counts as written.
const minWatch = 100 * time.Millisecond

// Validate names every fault of the configuration, by its YAML key.
func (s Steering) Validate() error {
	var faults []error
	if s.Metrics != MetricsKey && s.Metrics != MetricsOpen && s.Metrics != MetricsOff {
		faults = append(faults, fmt.Errorf("metrics: %q is none of %s, %s and %s", s.Metrics, MetricsKey, MetricsOpen, MetricsOff))
	}
	if _, err := remote.Parse(s.TrustedProxies); err != nil {
		faults = append(faults, fmt.Errorf("trusted_proxies%w", err))
	}
	if s.MaxHeader < minHeader {
		faults = append(faults, fmt.Errorf("max_header: %d must be at least %d bytes", s.MaxHeader, minHeader))
	}
	if s.HeaderTimeout <= 0 {
		faults = append(faults, fmt.Errorf("header_timeout: %v must be positive", s.HeaderTimeout))
	}
	if s.Watch < 0 || s.Watch > 0 && s.Watch < minWatch {
		faults = append(faults, fmt.Errorf("watch: %v; want at least %v, or 0 for never", s.Watch, minWatch))
	}
	return errors.Join(append(faults, s.TLS.validate("tls"), s.Trial.Validate())...)
}
