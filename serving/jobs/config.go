// Package jobs serves jobs: several requests to a multimodal model with a floor for their
// mean quality and a time for all. It chooses which inputs each request uses, has an engine
// answer them in batches, and puts the answers together. What to choose is planned by
// router/modality.
package jobs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	rm "gearshift/router/modality"
)

// Config is the models whose inputs are chosen. The zero value has none.
type Config struct {
	Models []Model
	// Policy plans the jobs that wait: one of the planner's [rm.Names]. Empty is the first.
	Policy string
	// NewPolicy, if set, makes the policy in place of Policy.
	NewPolicy func(t *rm.Table) (rm.Policy, error)
	// NewTable, if set, makes the table of a worker's strategies, or has it from where it was
	// made before.
	NewTable func(model, worker string, options []rm.Option, mixing rm.Mixing, size int) (*rm.Table, error)
	// Mixing says whether the requests of a job may use different options. Empty is [rm.Mixed].
	Mixing rm.Mixing
	// Seed is that of policies that draw.
	Seed uint64
	// Largest bounds the requests of a job; zero is the largest batch of any option.
	Largest int
	// Fixed has plans keep to the times of the configuration, whatever batches really take.
	Fixed bool
	// MaxWaiting bounds the jobs that wait for one worker. Zero is 1000.
	MaxWaiting int
}

// Model is a model whose inputs may be left out.
type Model struct {
	// Name is what requests name it by. The names of its options stand for it too, bound
	// to that one option.
	Name string
	// Modalities are those of the model, such as text, image, audio and video, in its order.
	Modalities []string
	// Tensors are the modalities of input tensors, by the tensors' names. Nil: a tensor is of
	// the modality that its name is or begins with, and those of our own engines are known.
	Tensors map[string]string
	Options []Option
	Tasks   []Task
	Workers []Worker
}

// Option is a combination of modalities that the model can answer by.
type Option struct {
	// Variant is its name.
	Variant string
	// Modalities are some of the model's.
	Modalities []string
}

// Task is a task that the model answers.
type Task struct {
	Name string
	// Quality is that of each option's answers, by the option's variant. An option without
	// one does not answer the task.
	Quality map[string]float64
	// Total is the time that a job has which names none; zero is 1 s.
	Total time.Duration
}

// Worker is an engine that answers by every option of the model, one batch at a time.
type Worker struct {
	// Name is that of its host.
	Name string
	// Latency is the time in milliseconds of a batch of 1, 2, … requests, by option in the
	// model's order. The worker's real times correct it.
	Latency [][]float64
	// Replicas are the indices of the options' replicas in the fleet's table, in the model's order.
	Replicas []int
}

// Validate names every fault.
func (c *Config) Validate() error {
	var faults []error
	if c.Policy != "" {
		faults = append(faults, rm.CheckName(c.Policy))
	}
	if c.MaxWaiting < 0 || c.Largest < 0 {
		faults = append(faults, errors.New("bounds must not be negative"))
	}
	named := map[string]bool{}
	for i := range c.Models {
		m := &c.Models[i]
		if err := m.validate(); err != nil {
			faults = append(faults, fmt.Errorf("model %q: %w", m.Name, err))
		}
		for _, name := range m.names() {
			if named[name] {
				faults = append(faults, fmt.Errorf("model %q: the name %q is there twice", m.Name, name))
			}
			named[name] = true
		}
	}
	return errors.Join(faults...)
}

// names are those that requests may name the model by. An option may have the model's own.
func (m *Model) names() []string {
	all := []string{m.Name}
	for i := range m.Options {
		if m.Options[i].Variant != m.Name {
			all = append(all, m.Options[i].Variant)
		}
	}
	return all
}

func (m *Model) validate() error {
	switch {
	case m.Name == "":
		return errors.New("there is no name")
	case len(m.Modalities) == 0 || len(m.Modalities) > rm.MaxOptions:
		return fmt.Errorf("%d modalities; want 1 to %d", len(m.Modalities), rm.MaxOptions)
	case len(m.Options) == 0 || len(m.Tasks) == 0 || len(m.Workers) == 0:
		return errors.New("options, tasks and workers: want at least one of each")
	}
	var faults []error
	for i, name := range m.Modalities {
		if name == "" || slices.Index(m.Modalities, name) != i {
			faults = append(faults, fmt.Errorf("modality %q is empty or there twice", name))
		}
	}
	for tensor, name := range m.Tensors {
		if !slices.Contains(m.Modalities, name) {
			faults = append(faults, fmt.Errorf("tensor %q: there is no modality %q; there are %s", tensor, name, strings.Join(m.Modalities, ", ")))
		}
	}
	for i := range m.Options {
		faults = append(faults, m.Options[i].validate(m))
	}
	for i := range m.Tasks {
		faults = append(faults, m.Tasks[i].validate(m))
	}
	for i := range m.Workers {
		faults = append(faults, m.Workers[i].validate(m))
	}
	return errors.Join(faults...)
}

func (o *Option) validate(m *Model) error {
	if o.Variant == "" || len(o.Modalities) == 0 {
		return fmt.Errorf("option %q: want a variant and at least one modality", o.Variant)
	}
	for i, name := range o.Modalities {
		if !slices.Contains(m.Modalities, name) || slices.Index(o.Modalities, name) != i {
			return fmt.Errorf("option %q: modality %q is unknown or there twice; the model has %s", o.Variant, name, strings.Join(m.Modalities, ", "))
		}
	}
	return nil
}

func (t *Task) validate(m *Model) error {
	if t.Name == "" || len(t.Quality) == 0 || t.Total < 0 {
		return fmt.Errorf("task %q: want a name, a quality of some option, and no time below 0", t.Name)
	}
	for variant, q := range t.Quality {
		known := slices.ContainsFunc(m.Options, func(o Option) bool { return o.Variant == variant })
		if !known || !(q >= 0 && q < math.Inf(1)) {
			return fmt.Errorf("task %q: quality %v of %q; want numbers from 0 on, of the model's options", t.Name, q, variant)
		}
	}
	return nil
}

func (w *Worker) validate(m *Model) error {
	switch {
	case len(w.Latency) != len(m.Options):
		return fmt.Errorf("worker %q: times of %d options; the model has %d", w.Name, len(w.Latency), len(m.Options))
	case len(w.Replicas) != len(m.Options):
		return fmt.Errorf("worker %q: %d replicas; the model has %d options", w.Name, len(w.Replicas), len(m.Options))
	}
	return nil
}
