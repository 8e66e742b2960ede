package health

import (
	"strings"
	"time"

	"gearshift/internal/faults"
)

// Config sets when a replica gets no requests, and how it comes back. Start from
// [DefaultConfig].
type Config struct {
	// Failures in a row after which a replica is ejected. Zero is never.
	Failures int `yaml:"failures"`
	// FailureShare of the requests within Window ejects, once there have been
	// WindowRequests. Zero is never.
	FailureShare   float64       `yaml:"failure_share"`
	Window         time.Duration `yaml:"window"`
	WindowRequests int           `yaml:"window_requests"`
	// SilentAfter is how long a replica may hold work without a token of
	// progress, while others progress. Zero is for ever.
	SilentAfter time.Duration `yaml:"silent_after"`
	// MaxEjected is the share of all replicas that may be out because of what
	// they answered, or did not. One that cannot be reached is always out.
	MaxEjected float64 `yaml:"max_ejected"`

	// Cooldown is how long a replica is out at first; each further time within
	// MaxCooldown takes twice as long, up to that.
	Cooldown    time.Duration `yaml:"-"`
	MaxCooldown time.Duration `yaml:"max_cooldown"`
	// Trials is how many requests at a time a replica gets after that, and how
	// many must succeed before it gets more.
	Trials int `yaml:"trials"`
	// SlowStart is the time in which its share then grows to the full one. Zero
	// gives it all at once.
	SlowStart time.Duration `yaml:"slow_start"`

	// ProbeInterval is how often each upstream server is asked for ProbePath,
	// within ProbeTimeout. Zero is never.
	ProbeInterval time.Duration `yaml:"probe_interval"`
	ProbeTimeout  time.Duration `yaml:"probe_timeout"`
	ProbePath     string        `yaml:"probe_path"`
	// ProbeFailures in a row take a replica out. A refused connection does at once.
	ProbeFailures int `yaml:"probe_failures"`
	// ProbeModels keeps replicas out whose server lists other models and not theirs.
	ProbeModels bool `yaml:"probe_models"`
}

// DefaultConfig suits engines that answer within seconds.
func DefaultConfig() Config {
	return Config{
		Failures:     5,
		FailureShare: 0.5, Window: 30 * time.Second, WindowRequests: 20,
		SilentAfter: 30 * time.Second,
		MaxEjected:  0.5,
		Cooldown:    5 * time.Second, MaxCooldown: time.Minute,
		Trials:        2,
		SlowStart:     10 * time.Second,
		ProbeInterval: 2 * time.Second, ProbeTimeout: 2 * time.Second,
		ProbePath: "/health", ProbeFailures: 3, ProbeModels: true,
	}
}

// Validate reports every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	for _, n := range []struct {
		key          string
		value, least int
	}{
		{"failures", c.Failures, 0}, {"window_requests", c.WindowRequests, 1},
		{"trials", c.Trials, 1}, {"probe_failures", c.ProbeFailures, 1},
	} {
		found.If(n.value < n.least, "%s: %d must be at least %d", n.key, n.value, n.least)
	}
	for _, s := range []struct {
		key   string
		value float64
	}{{"failure_share", c.FailureShare}, {"max_ejected", c.MaxEjected}} {
		found.If(!(s.value >= 0 && s.value <= 1), "%s: %v must be from 0 to 1", s.key, s.value) // NaN fails too
	}
	for _, t := range []struct {
		key   string
		value time.Duration
	}{{"silent_after", c.SilentAfter}, {"slow_start", c.SlowStart}, {"probe_interval", c.ProbeInterval}} {
		found.If(t.value < 0, "%s: %v must be positive, or 0 for none", t.key, t.value)
	}
	found.If(c.Window <= 0, "window: %v must be positive", c.Window)
	found.If(c.MaxCooldown < c.Cooldown, "max_cooldown: %v must be at least the cooldown, %v", c.MaxCooldown, c.Cooldown)
	found.If(c.ProbeTimeout <= 0, "probe_timeout: %v must be positive", c.ProbeTimeout)
	found.If(!strings.HasPrefix(c.ProbePath, "/"), "probe_path: %q must begin with /", c.ProbePath)
	return found.Err()
}
