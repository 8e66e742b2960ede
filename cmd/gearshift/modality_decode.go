package main

import (
	"errors"
	"fmt"

	"gearshift/internal/output"
	"gearshift/router/modality"
)

// modalityFile is a queue as it is written. What has no default is a pointer.
type modalityFile struct {
	FreeAt  float64           `json:"free_at"`
	Mode    modality.Mode     `json:"mode"`
	Mixing  modality.Mixing   `json:"mixing"`
	Options *[]modalityOption `json:"options"`
	Jobs    *[]modalityJob    `json:"jobs"`
}

type modalityOption struct {
	Name    *string    `json:"name"`
	Quality *float64   `json:"quality"`
	Latency *[]float64 `json:"latency"`
}

type modalityJob struct {
	ID         *string  `json:"id"`
	Size       *int     `json:"size"`
	MinQuality float64  `json:"min_quality"`
	Deadline   *float64 `json:"deadline"`
}

// modalityForm is what a queue looks like.
var modalityForm = output.Form{
	Name: "the queue", Want: "an object with options and jobs",
	Keys: map[string][]string{
		"the queue": {"free_at", "mode", "mixing", "options", "jobs"},
		"options":   {"name", "quality", "latency"},
		"jobs":      {"id", "size", "min_quality", "deadline"},
	},
}

// decodeQueue reads the text and names the line or the entry of a fault. Options that are given are
// the queue's, which has none of its own then.
func decodeQueue(text []byte, options []modality.Option) (*modalityQueue, error) {
	var f modalityFile
	if err := modalityForm.Decode(text, &f); err != nil {
		return nil, err
	}
	return f.queue(options)
}

// queue checks that nothing is missing.
func (f *modalityFile) queue(options []modality.Option) (*modalityQueue, error) {
	q := &modalityQueue{FreeAt: f.FreeAt, Mode: f.Mode, Mixing: f.Mixing, Options: options}
	if q.Mode == "" {
		q.Mode = modality.PrefixSafe
	}
	if q.Mixing == "" {
		q.Mixing = modality.Mixed
	}
	switch {
	case f.Options != nil && options != nil:
		return nil, errors.New("options: they are those of the scenario's model; want no list here, or no --scenario")
	case f.Options == nil && options == nil:
		return nil, errors.New("options is missing; want a list of combinations of inputs")
	case f.Jobs == nil:
		return nil, errors.New("jobs is missing; want a list, which may be empty")
	case !(q.FreeAt >= -modality.Largest && q.FreeAt <= modality.Largest):
		return nil, fmt.Errorf("free_at: %g must be a number from %g to %g", q.FreeAt, -modality.Largest, modality.Largest)
	}
	if f.Options == nil {
		f.Options = new([]modalityOption)
	}
	for i, o := range *f.Options {
		switch {
		case o.Name == nil:
			return nil, fmt.Errorf("options[%d]: name is missing", i)
		case o.Quality == nil:
			return nil, fmt.Errorf("options[%d] %q: quality is missing; want a number", i, *o.Name)
		case o.Latency == nil:
			return nil, fmt.Errorf("options[%d] %q: latency is missing; want the time of a batch of 1, 2, … requests", i, *o.Name)
		}
		q.Options = append(q.Options, modality.Option{Name: *o.Name, Quality: *o.Quality, Latency: *o.Latency})
	}
	for i, j := range *f.Jobs {
		switch {
		case j.ID == nil || *j.ID == "":
			return nil, fmt.Errorf("jobs[%d]: id is missing", i)
		case j.Size == nil:
			return nil, fmt.Errorf("jobs[%d] %q: size is missing; want how many requests it has", i, *j.ID)
		case j.Deadline == nil:
			return nil, fmt.Errorf("jobs[%d] %q: deadline is missing; want a time", i, *j.ID)
		}
		q.Jobs = append(q.Jobs, modality.Job{ID: *j.ID, Size: *j.Size, MinQuality: j.MinQuality, Deadline: *j.Deadline})
	}
	return q, nil
}
