package gauges

import (
	"strings"
	"time"

	"gearshift/internal/faults"
)

// Config is how engines' gauges are read. [DefaultConfig] has values that need no
// thought.
type Config struct {
	// Interval is how often each engine is asked. Zero is never.
	Interval time.Duration `yaml:"scrape_interval"`
	// Timeout bounds the wait for an answer.
	Timeout time.Duration `yaml:"scrape_timeout"`
	// Path of the page.
	Path string `yaml:"path"`
	// StaleAfter is the age from which a reading corrects nothing any more.
	StaleAfter time.Duration `yaml:"stale_after"`
}

// DefaultConfig asks each second.
func DefaultConfig() Config {
	return Config{Interval: time.Second, Timeout: time.Second, Path: "/metrics", StaleAfter: 5 * time.Second}
}

// Validate names every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	found.If(c.Interval < 0, "scrape_interval: %v must be positive, or 0 for none", c.Interval)
	found.If(c.Timeout <= 0, "scrape_timeout: %v must be positive", c.Timeout)
	found.If(c.StaleAfter <= 0 || c.StaleAfter < c.Interval, "stale_after: %v must be positive, and at least the interval, %v", c.StaleAfter, c.Interval)
	found.If(!strings.HasPrefix(c.Path, "/"), "path: %q must begin with /", c.Path)
	return found.Err()
}
