// Package experience keeps routed requests on disk: what was known when each was
// decided, what was chosen, and what came of it. It holds no prompt and no answer.
//
// A log is files of JSON lines. The first line of a file is its [Header], each
// other line a [Row]. A [Store] writes them from a server; [Load] reads them for
// those who judge policies or train on them. A [Recorder] stands between a server and its router.
package experience

import (
	"gearshift/internal/faults"
	"gearshift/internal/splitmix"
)

// Config is whether, where and how much to log. [DefaultConfig] logs nothing.
type Config struct {
	// Path is the file that rows are appended to. Full files lie beside it, with
	// the time at which they were closed in their names. Empty: nothing is logged.
	Path string `yaml:"path,omitempty"`
	// Sample is the share of the requests to log, in stretches of [Stretch] in a
	// row, since only rows that follow each other show what a choice led to.
	Sample float64 `yaml:"sample"`
	// MaxSizeMiB bounds a file, in MiB; MaxFiles how many are kept, the one
	// written to among them. Those without a row go first, then the oldest.
	MaxSizeMiB int `yaml:"max_size_mib"`
	MaxFiles   int `yaml:"max_files"`
	// Buffer is how many rows may wait to be written. A further one is dropped and
	// counted: a request never waits for the disk.
	Buffer int `yaml:"buffer"`
}

// DefaultConfig logs nothing and, once it has a path, everything into at most
// half a GiB.
func DefaultConfig() Config {
	return Config{Sample: 1, MaxSizeMiB: 64, MaxFiles: 8, Buffer: 4096}
}

// On says whether anything is to be logged.
func (c Config) On() bool { return c.Path != "" }

// Validate names every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	found.If(!(c.Sample > 0 && c.Sample <= 1), "sample: %v must be above 0 and at most 1; to log nothing, leave the path out", c.Sample) // NaN fails too
	for _, n := range []struct {
		key   string
		value int
		most  int
	}{
		{"max_size_mib", c.MaxSizeMiB, 1 << 20},
		{"max_files", c.MaxFiles, 10_000},
		{"buffer", c.Buffer, 1 << 20},
	} {
		found.If(n.value < 1 || n.value > n.most, "%s: %d must be from 1 to %d", n.key, n.value, n.most)
	}
	return found.Err()
}

// Stretch is how many requests in a row are logged, or not, together.
const Stretch = 64

// sampled says whether a request is to be logged, by its number from 1 on.
func (c *Config) sampled(id, seed uint64) bool {
	if c.Sample >= 1 {
		return true
	}
	return splitmix.Unit(splitmix.Next((id-1)/Stretch^seed)) < c.Sample
}
