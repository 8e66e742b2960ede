package config

import (
	"fmt"
	"slices"
	"strings"

	"gearshift/internal/faults"
	"gearshift/router/fleet"
	"gearshift/router/queue"
	"gearshift/serving/openai/wire"
)

// Class is a class of requests; see [queue.Class].
type Class struct {
	// Name is matched by x-llm-d-inference-objective.
	Name string `yaml:"name"`
	// Priority: higher ones go first, whatever waits below.
	Priority int `yaml:"priority,omitempty"`
	// Share of the places, among classes of the same priority. Zero is 1.
	Share float64 `yaml:"share,omitempty"`
	// Tasks lists the tasks whose requests are of this class unless they name one.
	Tasks []string `yaml:"tasks,flow,omitempty"`
	// First is the variant that its requests for auto get first under load. Nil: the policy chooses at any load.
	First *First `yaml:"first,flow,omitempty"`
}

// First is the variant that requests of a class get first; see [fleet.First].
type First struct {
	Variant string  `yaml:"variant"`
	From    float64 `yaml:"from"`
}

// Waits returns the class as the queue uses it.
func (c *Class) Waits() queue.Class {
	return queue.Class{Name: c.Name, Priority: c.Priority, Share: c.Share}
}

// In returns the variant of the fleet that the class gets first; nil if it has none there.
func (c *Class) In(t *fleet.Table) *fleet.First {
	if c.First == nil {
		return nil
	}
	v := t.VariantIndex(c.First.Variant)
	if v < 0 {
		return nil
	}
	return &fleet.First{Variant: v, From: c.First.From}
}

// OfTask returns the index of the class of a task's requests that name none: the class that lists the task, or
// else the first.
func OfTask(classes []Class, task string) int {
	return max(0, slices.IndexFunc(classes, func(c Class) bool { return slices.Contains(c.Tasks, task) }))
}

// Prefers reports whether any class has a variant that it gets first.
func (c *Config) Prefers() bool {
	return slices.ContainsFunc(c.Classes, func(k Class) bool { return k.First != nil })
}

// validateClasses reports every fault of the classes, by its YAML key.
func validateClasses(classes []Class) error {
	var found faults.List
	names, tasks := map[string]bool{}, map[string]string{}
	for i, c := range classes {
		switch {
		case !wire.Plain(c.Name):
			found.Add(fmt.Errorf("classes[%d].name: %q must be 1 to 128 printable characters without spaces", i, c.Name))
		case names[c.Name]:
			found.Add(fmt.Errorf("classes[%d].name: class %q is listed twice", i, c.Name))
		}
		names[c.Name] = true
		found.If(!(c.Share >= 0 && c.Share <= 1e6), "classes[%d].share: %v must be above 0 and at most 1000000", i, c.Share)
		for n, task := range c.Tasks {
			by, known := tasks[task]
			found.If(known, "classes[%d].tasks[%d]: class %q lists task %q already; want each task once", i, n, by, task)
			tasks[task] = c.Name
		}
		if f := c.First; f != nil {
			found.If(f.Variant == "", "classes[%d].first.variant: is missing; want the variant that requests of class %q get first", i, c.Name)
			found.If(!(f.From >= 0 && f.From <= 1), "classes[%d].first.from: %v must be a load from 0 to 1", i, f.From)
		}
	}
	return found.Err()
}

// Fleet answers the questions by which classes are checked.
type Fleet struct {
	Tasks, Variants []string
	// Answers reports whether the variant answers the task.
	Answers func(task, variant string) bool
}

// FleetOf returns the table's answers for the check of classes.
func FleetOf(t *fleet.Table) Fleet {
	f := Fleet{Answers: func(task, variant string) bool { return t.Answers(t.TaskIndex(task), t.VariantIndex(variant)) }}
	for i := range t.Tasks {
		f.Tasks = append(f.Tasks, t.Tasks[i].Name)
	}
	for _, v := range t.Variants {
		f.Variants = append(f.Variants, v.Name)
	}
	return f
}

// FitClasses reports every task and variant of the classes that the fleet does not have, and each variant that
// answers no task of its class, by its YAML key.
func (c *Config) FitClasses(f Fleet) error {
	var found faults.List
	for i, k := range c.Classes {
		for n, task := range k.Tasks {
			found.If(!slices.Contains(f.Tasks, task), "classes[%d].tasks[%d]: there is no task %q; there are %s", i, n, task, strings.Join(f.Tasks, ", "))
		}
		if k.First == nil || k.First.Variant == "" {
			continue
		}
		variant, of := k.First.Variant, k.Tasks
		if len(of) == 0 {
			of = f.Tasks
		}
		switch known := func(task string) bool { return slices.Contains(f.Tasks, task) }; {
		case !slices.Contains(f.Variants, variant):
			found.If(true, "classes[%d].first.variant: there is no variant %q; there are %s", i, variant, strings.Join(f.Variants, ", "))
		case !slices.ContainsFunc(of, func(task string) bool { return known(task) && f.Answers(task, variant) }) && slices.ContainsFunc(of, known):
			found.If(true, "classes[%d].first.variant: %q answers no task of the class (%s)", i, variant, strings.Join(of, ", "))
		}
	}
	return found.Err()
}
