package config

import (
	"strings"
	"time"

	"gearshift/internal/faults"
	"gearshift/router"
)

// What [Overload] may shed.
const (
	// ShedHopeless begins no request that is forecast to miss its deadline on every
	// replica: it waits for room as long as its deadline allows, and is refused then.
	ShedHopeless = "hopeless"
	// ShedNever begins requests as long as a replica has a place for them, however
	// late they will be.
	ShedNever = "never"
)

// DefaultTenantHeader names the tenant of a request where the configuration names no other header.
const DefaultTenantHeader = "x-gearshift-tenant"

// FairnessHeaders name the tenant where the default header does not: those of llm-d, the older name last.
var FairnessHeaders = [...]string{"X-Llm-D-Inference-Fairness-Id", "X-Gateway-Inference-Fairness-Id"}

// Overload is what the server does when more is asked of it than the fleet can
// answer in time, even by its smallest variants.
type Overload struct {
	// Shed is ShedHopeless or ShedNever.
	Shed string `yaml:"shed"`
	// Pace is the share of its deadline, per token, that a request may be forecast
	// to take where it is begun; KV the share of a replica's KV cache that it may
	// come to fill with those already there. Only ShedHopeless heeds them.
	Pace float64 `yaml:"pace"`
	KV   float64 `yaml:"kv"`
	// MaxQueue bounds the requests that wait, of all classes. Zero: none wait.
	MaxQueue int `yaml:"max_queue"`
	// MaxWait bounds the time that a request waits.
	MaxWait time.Duration `yaml:"max_wait"`
	// WaitShare bounds it too, as a share of the time that the whole of a mean
	// answer may take: its deadline per token × the mean output length.
	WaitShare float64 `yaml:"wait_share"`
	// MaxRetryAfter bounds the wait that a refused client is asked for.
	MaxRetryAfter time.Duration `yaml:"max_retry_after"`
	// TenantHeader names the tenant of a request without an API key that names one; [DefaultTenantHeader] includes
	// [FairnessHeaders]. Empty: all requests without a key are of one tenant.
	TenantHeader string `yaml:"tenant_header"`
}

// DefaultOverload sheds what is hopeless, and lets requests wait for a moment.
func DefaultOverload() Overload {
	return Overload{
		Shed: ShedHopeless, Pace: 0.97, KV: 0.9,
		MaxQueue: 256, MaxWait: 5 * time.Second, WaitShare: 0.01,
		MaxRetryAfter: time.Minute, TenantHeader: DefaultTenantHeader,
	}
}

// Validate names every fault of the configuration, by its YAML key.
func (o Overload) Validate() error {
	var found faults.List
	found.If(o.Shed != ShedHopeless && o.Shed != ShedNever, "shed: %q is neither %s nor %s", o.Shed, ShedHopeless, ShedNever)
	for _, x := range []struct {
		key   string
		value float64
	}{{"pace", o.Pace}, {"kv", o.KV}} {
		found.If(!(x.value > 0 && x.value <= 10), "%s: %v must be a share above 0 and at most 10", x.key, x.value)
	}
	found.If(o.MaxQueue < 0, "max_queue: %d is negative", o.MaxQueue)
	found.If(o.MaxWait <= 0, "max_wait: %v must be positive", o.MaxWait)
	found.If(!(o.WaitShare > 0 && o.WaitShare <= 1), "wait_share: %v must be a share above 0 and at most 1", o.WaitShare)
	found.If(o.MaxRetryAfter < time.Second, "max_retry_after: %v must be at least 1s", o.MaxRetryAfter)
	found.If(strings.ContainsFunc(o.TenantHeader, notToken), "tenant_header: %q is not the name of a header", o.TenantHeader)
	return under("overload", found.Err())
}

// notToken says that the character may not stand in the name of a header.
func notToken(r rune) bool {
	letter := r|0x20 >= 'a' && r|0x20 <= 'z'
	return !letter && !(r >= '0' && r <= '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// Limits are what bounds the waiting for answers of that mean length.
func (c *Config) Limits(output float64) router.Limits {
	o := &c.Overload
	return router.Limits{
		MaxQueue: o.MaxQueue, MaxWait: o.MaxWait, WaitShare: o.WaitShare, Output: output,
		RetryAfter: c.RetryAfter, MaxRetryAfter: o.MaxRetryAfter, Hold: router.Hold(c.Hold),
	}
}

// Hold bounds the requests that wait until an engine has loaded or woken the model that they need.
type Hold struct {
	// For bounds the time that a request is held; zero: it is refused. Most bounds the number at a time.
	For  time.Duration `yaml:"for"`
	Most int           `yaml:"most"`
}

// DefaultHold holds none.
func DefaultHold() Hold { return Hold{Most: 100} }

// validate names every fault of the section, by its YAML key.
func (h Hold) validate(c Config) error {
	var found faults.List
	found.If(h.For < 0 || h.For > 0 && h.For < time.Second || h.For > 10*time.Minute, "for: want a time from 1s to 10m, or 0s to hold no request, not %v", h.For)
	found.If(h.Most < 1, "most: %d must be at least 1", h.Most)
	found.If(h.For > 0 && h.Most > c.Overload.MaxQueue, "most: %d are more than overload.max_queue, %d, lets wait; want at most as many", h.Most, c.Overload.MaxQueue)
	return under("hold", found.Err())
}
