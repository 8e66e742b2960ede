// Package modality plans which inputs of a multimodal model are used. A job is several
// requests with a floor for their mean quality and a deadline; each of its requests may be
// answered from another combination of inputs, in batches of one combination each. The
// package reads no clock. Times are in one unit throughout, milliseconds as a rule.
//
// It follows MOSEL (arXiv 2310.18481): the table of strategies made beforehand, and the
// plan of a queue in order of deadlines.
package modality

import (
	"errors"
	"fmt"
	"math/bits"
)

// Option is one combination of inputs: how good its answers are, and how long batches
// take.
type Option struct {
	Name    string    `json:"name"`
	Quality float64   `json:"quality"`
	Latency []float64 `json:"latency"` // of a batch of 1, 2, … requests
}

func (o *Option) validate() error {
	switch {
	case o.Name == "":
		return errors.New("there is no name")
	case !(o.Quality >= 0 && o.Quality <= Largest):
		return fmt.Errorf("quality: %g must be a number from 0 to %g", o.Quality, Largest)
	case len(o.Latency) == 0:
		return errors.New("latency: the list is empty; it needs the time of a batch of 1, 2, … requests")
	case len(o.Latency) > MaxBatch:
		return fmt.Errorf("latency: %d entries; at most %d", len(o.Latency), MaxBatch)
	}
	for i, l := range o.Latency {
		if !(l > 0 && l <= Largest) {
			return fmt.Errorf("latency: %g, of a batch of %d, must be above 0, and at most %g", l, i+1, Largest)
		}
	}
	return nil
}

// The most that a table may have.
const (
	MaxBatch   = 1024
	MaxOptions = 63
	// Largest is that of qualities and times.
	Largest = 1e15
	// mostNodes bounds the strategies that a table is made of.
	mostNodes = 1 << 20
)

func validate(options []Option) error {
	if len(options) == 0 {
		return errors.New("options: there are none")
	}
	if len(options) > MaxOptions {
		return fmt.Errorf("options: %d; at most %d", len(options), MaxOptions)
	}
	named := map[string]bool{}
	for i := range options {
		o := &options[i]
		if err := o.validate(); err != nil {
			return fmt.Errorf("options[%d] %q: %w", i, o.Name, err)
		}
		if named[o.Name] {
			return fmt.Errorf("options[%d]: the name %q is there twice", i, o.Name)
		}
		named[o.Name] = true
	}
	return nil
}

// Combinations returns all subsets of the modalities but the empty one, as bit masks, those
// of fewer modalities first: 2ⁿ−1 of them (MOSEL-2).
func Combinations(modalities int) []uint {
	var all []uint
	for size := 1; size <= modalities; size++ {
		for mask := uint(1); mask < 1<<modalities; mask++ {
			if bits.OnesCount(mask) == size {
				all = append(all, mask)
			}
		}
	}
	return all
}
