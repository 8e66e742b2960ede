// Package jobs serves jobs: several requests to a multimodal model with a floor for their
// mean quality and a time for all. It chooses which inputs each request uses, has an engine
// answer them in batches, and puts the answers together. What to choose is planned by
// router/modality.
package jobs

import (
	"fmt"
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
}

// Model is a model whose inputs may be left out.
type Model struct {
	// Name is what requests name it by. The names of its options stand for it too, bound
	// to that one option.
	Name string
	// Modalities are those of the model, such as text, image, audio and video, in its order.
	Modalities []string
	Options    []Option
	Tasks      []Task
	Workers    []Worker
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

// Validate reports names that stand for two models. What else a model has to be its scenario has checked.
func (c *Config) Validate() error {
	named := map[string]string{}
	for i := range c.Models {
		m := &c.Models[i]
		names := []string{m.Name}
		for k := range m.Options {
			names = append(names, m.Options[k].Variant)
		}
		for _, name := range names {
			if other, ok := named[name]; ok && other != m.Name {
				return fmt.Errorf("models %q and %q: the name %q stands for both", other, m.Name, name)
			}
			named[name] = m.Name
		}
	}
	return nil
}
