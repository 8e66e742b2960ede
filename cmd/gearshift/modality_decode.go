package main

import (
	"errors"
	"fmt"

	"gearshift/internal/scenario"
	"gearshift/router/modality"
)

// modalityFile is a queue as it is written.
type modalityFile struct {
	FreeAt  float64           `yaml:"free_at,omitempty"`
	Mode    modality.Mode     `yaml:"mode,omitempty"`
	Mixing  modality.Mixing   `yaml:"mixing,omitempty"`
	Options *[]modalityOption `yaml:"options,omitempty"`
	Jobs    []modalityJob     `yaml:"jobs"`
}

type modalityOption struct {
	Name    string    `yaml:"name"`
	Quality float64   `yaml:"quality"`
	Latency []float64 `yaml:"latency"` // of a batch of 1, 2, … requests
}

type modalityJob struct {
	ID         string  `yaml:"id"`
	Size       int     `yaml:"size"`
	MinQuality float64 `yaml:"min_quality,omitempty"`
	Deadline   float64 `yaml:"deadline"`
}

// readQueue reads a queue, and makes its table.
func readQueue(name string, text []byte, options []modality.Option) (*modalityQueue, *modality.Table, error) {
	f := modalityFile{Mode: modality.PrefixSafe, Mixing: modality.Mixed}
	if err := scenario.Decode(name, text, &f); err != nil {
		return nil, nil, err
	}
	q, err := f.queue(options)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	table, err := q.table()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return q, table, nil
}

// queue returns what is written. Options that are given are the queue's, which has none of its own
// then.
func (f *modalityFile) queue(options []modality.Option) (*modalityQueue, error) {
	q := &modalityQueue{FreeAt: f.FreeAt, Mode: f.Mode, Mixing: f.Mixing, Options: options}
	switch {
	case f.Options != nil && options != nil:
		return nil, errors.New("options: they are those of the scenario's model; want no list here, or no --scenario")
	case f.Options == nil && options == nil:
		return nil, errors.New("options is missing; want a list of combinations of inputs")
	case !(q.FreeAt >= -modality.Largest && q.FreeAt <= modality.Largest):
		return nil, fmt.Errorf("free_at: %g must be a number from %g to %g", q.FreeAt, -modality.Largest, modality.Largest)
	}
	if f.Options != nil {
		for _, o := range *f.Options {
			q.Options = append(q.Options, modality.Option(o))
		}
	}
	for _, j := range f.Jobs {
		q.Jobs = append(q.Jobs, modality.Job{ID: j.ID, Size: j.Size, MinQuality: j.MinQuality, Deadline: j.Deadline})
	}
	return q, nil
}
