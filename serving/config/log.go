package config

import (
	"fmt"
	"io"
	"log/slog"

	"gearshift/internal/faults"
)

// Log is what the server writes about itself and its requests.
type Log struct {
	// Format is [LogText] or [LogJSON].
	Format string `yaml:"format"`
	// Level is the least level written: debug, info, warn or error.
	Level string `yaml:"level"`
	// Access says which requests get a line: [AccessAll], [AccessErrors] or
	// [AccessOff].
	Access string `yaml:"access"`
	// Sample is the share of completed requests that get theirs, with
	// [AccessAll].
	Sample float64 `yaml:"sample"`
}

// The formats of [Log].
const (
	LogText = "text" // key=value
	LogJSON = "json" // an object a line
)

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// What [Log] can say of access.
const (
	AccessAll    = "all"
	AccessErrors = "errors" // those that were not completed
	AccessOff    = "off"
)

// DefaultLog logs what went wrong.
func DefaultLog() Log {
	return Log{Format: LogText, Level: "info", Access: AccessErrors, Sample: 1}
}

// Validate names every fault of the configuration, by its YAML key.
func (l Log) Validate() error {
	var found faults.List
	found.If(l.Format != LogText && l.Format != LogJSON, "log.format: unknown format %q; want %s or %s", l.Format, LogText, LogJSON)
	if _, ok := levels[l.Level]; !ok {
		found.Add(fmt.Errorf("log.level: unknown level %q; want debug, info, warn or error", l.Level))
	}
	found.If(l.Access != AccessAll && l.Access != AccessErrors && l.Access != AccessOff, "log.access: %q is none of %s, %s and %s", l.Access, AccessAll, AccessErrors, AccessOff)
	found.If(!(l.Sample > 0 && l.Sample <= 1), "log.sample: %v must be above 0 and at most 1", l.Sample)
	return found.Err()
}

// Least is the least level written.
func (l Log) Least() slog.Level { return levels[l.Level] }

// Logger writes to w as configured, from the level on, which may change.
func (l Log) Logger(w io.Writer, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if l.Format == LogJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
