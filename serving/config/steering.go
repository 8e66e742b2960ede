package config

import (
	"time"

	"gearshift/internal/faults"
	"gearshift/serving/access"
	"gearshift/serving/admin/trial"
)

// Steering is what operators set for clients and for themselves, in addition to the
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
	var found faults.List
	found.If(s.Metrics != MetricsKey && s.Metrics != MetricsOpen && s.Metrics != MetricsOff, "metrics: %q is none of %s, %s and %s", s.Metrics, MetricsKey, MetricsOpen, MetricsOff)
	_, err := access.ParseProxies(s.TrustedProxies)
	found.If(err != nil, "trusted_proxies%w", err)
	found.If(s.MaxHeader < minHeader, "max_header: %d must be at least %d bytes", s.MaxHeader, minHeader)
	found.If(s.HeaderTimeout <= 0, "header_timeout: %v must be positive", s.HeaderTimeout)
	found.If(s.Watch < 0 || s.Watch > 0 && s.Watch < minWatch, "watch: %v; want at least %v, or 0 for never", s.Watch, minWatch)
	found.Add(s.TLS.validate("tls"), s.Trial.Validate())
	return found.Err()
}
