// Package config is how the server is set up: what serving: in a scenario may say, with
// its defaults, its checks, and what of it may change while the server runs.
package config

import (
	"fmt"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/health"
	"gearshift/serving/access"
	"gearshift/serving/admission/limits"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engines/informed"
	"gearshift/serving/experience"
)

// Config is how the server treats its clients. [DefaultConfig] has values that
// need no thought.
type Config struct {
	// Addr is where to listen, host:port.
	Addr string `yaml:"-"`
	// MaxBody bounds a request's body, in bytes.
	MaxBody int64 `yaml:"-"`
	// MaxAnswers bounds the answers to one prompt: n, or best_of.
	MaxAnswers int `yaml:"max_answers"`
	// Memory bounds what requests in flight hold, all together.
	Memory limits.MemoryConfig `yaml:"-"`
	// Connections bounds the clients' connections.
	Connections limits.Config `yaml:"connections,omitempty"`
	// DefaultTask is the task of a request that names none. Empty is the
	// first task of the table.
	DefaultTask string `yaml:"default_task"`
	// BodyTimeout bounds the arrival of a request's body.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// Timeouts bound the work on a request, and its Phases.
	Timeouts Timeouts `yaml:"timeouts"`
	// Retries is how often a request may be tried again.
	Retries Retries `yaml:"retries"`
	// WriteTimeout bounds each write to a client. One that stops reading
	// counts as gone.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// KeepAlive is after how long without a byte the client of a stream gets a comment.
	// Zero is never.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// LeaseTimeout bounds the life of a lease that a caller of the route
	// endpoint holds. It is shorter where the forecast of its answer is.
	LeaseTimeout time.Duration `yaml:"lease_timeout"`
	// Leases bounds how many places such callers may hold.
	Leases limits.LeaseConfig `yaml:"leases"`
	// Cooldown is how long a replica that could not be connected to gets no
	// requests.
	Cooldown time.Duration `yaml:"cooldown"`
	// RetryAfter is the wait that a refused client is asked for.
	RetryAfter time.Duration `yaml:"retry_after"`
	// DrainTimeout bounds the wait for requests in flight at shutdown.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// ReadyGrace is how long the server reports not ready at shutdown and still
	// takes requests, for load balancers to notice.
	ReadyGrace time.Duration `yaml:"ready_grace"`
	// Health is when replicas get no requests, and how they come back.
	Health health.Config `yaml:"health"`
	// Lifecycle is how engines are ordered to load models, and asked which they have.
	Lifecycle Lifecycle `yaml:"lifecycle"`
	// Gauges is how engines are asked for their own counts.
	Gauges gauges.Config `yaml:"gauges"`
	// Signals is how the load of replicas is learnt, and by what it is compared.
	Signals informed.Config `yaml:"signals"`
	// Drift is what follows where engines leave their profiles.
	Drift Drift `yaml:"drift"`
	// Log is what the server writes of itself and its requests.
	Log Log `yaml:"log"`
	// Tracing sends spans to a collector.
	Tracing Tracing `yaml:"tracing"`
	// Admin is the operators' listener.
	Admin Admin `yaml:"admin"`
	// Overload is what happens when there is more to do than can be done in time.
	Overload Overload `yaml:"overload"`
	// Hold bounds requests that wait for an engine to load or wake their model.
	Hold Hold `yaml:"hold"`
	// Classes of requests that wait; the first is that of a request that names none.
	// Empty is a single one.
	Classes []Class `yaml:"classes,omitempty"`
	// Experience is the log of routed requests; see [experience.Config].
	Experience experience.Config `yaml:"experience"`
	// Steering is what operators set for clients and themselves.
	Steering `yaml:",inline"`
	// Routers is how many share the fleet, this one included.
	Routers int `yaml:"routers"`
	// Peers lists the other routers, which report their load on each replica.
	Peers Peers `yaml:"peers,omitempty"`
	// Affinity keeps a session's requests on one replica.
	Affinity Affinity `yaml:"affinity"`
	// CORS is which web pages may ask.
	CORS access.CORS `yaml:"cors"`
	// Hosts are names that requests to a loopback address may use for this server,
	// in addition to the machine's own.
	Hosts []string `yaml:"hosts,omitempty"`
}

// Default is a server for this machine alone.
func Default() Config {
	return Config{
		Addr:         "127.0.0.1:8080",
		MaxBody:      8 << 20,
		MaxAnswers:   128,
		BodyTimeout:  30 * time.Second,
		Timeouts:     defaultTimeouts(),
		Retries:      defaultRetries(),
		WriteTimeout: 30 * time.Second,
		KeepAlive:    15 * time.Second,
		LeaseTimeout: 10 * time.Minute,
		Leases:       limits.DefaultLeases(),
		Cooldown:     5 * time.Second,
		RetryAfter:   time.Second,
		DrainTimeout: 30 * time.Second,
		Health:       health.DefaultConfig(),
		Lifecycle:    defaultLifecycle(),
		Gauges:       gauges.DefaultConfig(),
		Signals:      informed.DefaultConfig(),
		Drift:        Drift{Correct: true, Doubt: true},
		Log:          DefaultLog(),
		Tracing:      DefaultTracing(),
		Admin:        DefaultAdmin(),
		Overload:     DefaultOverload(),
		Hold:         DefaultHold(),
		Experience:   experience.DefaultConfig(),
		Steering:     DefaultSteering(),
		Affinity:     defaultAffinity(),
		CORS:         access.DefaultCORS(),
		Routers:      1,
		Peers:        DefaultPeers(),
	}
}

// Validate names every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	found.If(c.MaxBody < 1, "max_body: %d must be at least 1 byte", c.MaxBody)
	found.If(c.MaxAnswers < 1, "max_answers: %d must be at least 1", c.MaxAnswers)
	for _, t := range []struct {
		key   string
		value time.Duration
	}{
		{"body_timeout", c.BodyTimeout},
		{"write_timeout", c.WriteTimeout},
		{"lease_timeout", c.LeaseTimeout},
		{"cooldown", c.Cooldown},
		{"retry_after", c.RetryAfter},
		{"drain_timeout", c.DrainTimeout},
	} {
		found.If(t.value <= 0, "%s: %v must be positive", t.key, t.value)
	}
	found.If(c.KeepAlive < 0 || c.KeepAlive > 0 && c.KeepAlive < 100*time.Millisecond, "keep_alive: %v; want 0s (off) or at least 100ms", c.KeepAlive)
	found.If(c.ReadyGrace < 0, "ready_grace: %v is negative", c.ReadyGrace)
	found.Add(c.Log.Validate(), c.Tracing.Validate(), c.Admin.Validate(), c.Steering.Validate())
	found.Add(c.Memory.Validate(c.MaxBody), c.Connections.Validate())
	found.Add(c.Affinity.Validate())
	found.If(c.Routers < 1, "routers: want how many share the fleet, 1 or more, not %d", c.Routers)
	found.Add(under("peers", c.Peers.validate(c)))
	found.Add(c.CORS.Validate(), access.ValidateHosts(c.Hosts), c.Timeouts.validate(), c.Retries.validate())
	found.Add(under("health", c.Watching().Validate()), under("gauges", c.Gauges.Validate()), under("signals", c.Signals.Validate()))
	found.Add(c.Overload.Validate(), c.Hold.validate(c), validateClasses(c.Classes), under("experience", c.Experience.Validate()), under("leases", c.Leases.Validate()), under("lifecycle", c.Lifecycle.Validate()))
	return found.Err()
}

// Watching is what replicas are watched by: Health, with the cooldown that has a key of its own.
func (c *Config) Watching() health.Config {
	h := c.Health
	h.Cooldown = c.Cooldown
	return h
}

// under prefixes each of joined faults with the key of their section.
func under(key string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var found faults.List
		for _, e := range joined.Unwrap() {
			found.Add(under(key, e))
		}
		return found.Err()
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", key, err)
}
