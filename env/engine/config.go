// Package engine simulates inference engines, which batch continuously or run each
// batch to its end, and the hosts that they share, one iteration at a time. It reads
// no clock: the simulator hands it virtual time, the simulated backend wall-clock
// time.
package engine

import (
	"fmt"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/profile"
)

// The schedulers of an engine.
const (
	// PrefillFirst runs waiting prompts in a step of their own before any
	// further decoding, as vLLM did first.
	PrefillFirst = "prefill-first"
	// ChunkedPrefill decodes all running sequences in every step and fills the
	// rest of the token budget with pieces of prompts, as newer engines do.
	ChunkedPrefill = "chunked-prefill"
)

// Config is how an engine batches.
type Config struct {
	// Scheduler is PrefillFirst or ChunkedPrefill.
	Scheduler string `yaml:"scheduler"`
	// MaxBatchTokens bounds the new tokens of a step. What runs decodes whatever
	// the bound, and under PrefillFirst a longer prompt has a step of its own.
	MaxBatchTokens int `yaml:"max_batch_tokens"`
	// MaxPrompts bounds the prompts of a step under PrefillFirst; 0 does not.
	MaxPrompts int `yaml:"max_prompts,omitempty"`
	// MaxSequences bounds the sequences that run at once.
	MaxSequences int `yaml:"max_sequences"`
	// BlockTokens is the size of a KV-cache block.
	BlockTokens int `yaml:"block_tokens"`
	// BatchWindowMS is how long the first sequence of a batch that is not full waits for
	// others, in ms, where batches run to their end. 0: an idle engine begins at once.
	BatchWindowMS float64 `yaml:"batch_window_ms,omitempty"`
}

// maxWindowMS is the longest window, an hour.
const maxWindowMS = 3_600_000

func (c *Config) window() time.Duration { return profile.Duration(c.BatchWindowMS) }

// Validate names every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	found.If(c.Scheduler != PrefillFirst && c.Scheduler != ChunkedPrefill, "scheduler: %q is neither %s nor %s", c.Scheduler, PrefillFirst, ChunkedPrefill)
	positive := func(key string, v int) { found.If(v < 1, "%s: %d must be at least 1", key, v) }
	positive("max_batch_tokens", c.MaxBatchTokens)
	positive("max_sequences", c.MaxSequences)
	positive("block_tokens", c.BlockTokens)
	found.If(c.MaxPrompts < 0, "max_prompts: %d must not be negative", c.MaxPrompts)
	found.Add(c.checkWindow())
	return found.Err()
}

func (c *Config) checkWindow() error {
	if !(c.BatchWindowMS >= 0 && c.BatchWindowMS <= maxWindowMS) {
		return fmt.Errorf("batch_window_ms: %v must be from 0 to %d, an hour", c.BatchWindowMS, maxWindowMS)
	}
	return nil
}

// validateBatching is Validate of what an engine that runs batches to their end keeps to.
func (c *Config) validateBatching() error {
	var found faults.List
	found.If(c.MaxSequences < 1, "max_sequences: %d must be at least 1", c.MaxSequences)
	found.Add(c.checkWindow())
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot make engine: %w", err)
	}
	return nil
}
