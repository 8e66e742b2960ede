package jobs

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	rm "gearshift/router/modality"
)

// model is a model as it is planned and served.
type model struct {
	*Model
	entries []Planned
	masks   []uint64 // by option: its modalities, by their index in the model
	largest int      // job; zero is that of the longest batch

	mu      sync.Mutex // protects the pool, and jobs from Do on
	changed sync.Cond  // of mu: there may be something for a worker to run
	pool    *rm.Pool
}

// Planned is one of the planner's options: an option of the model for a task, as indices.
type Planned struct{ Task, Option int }

// defaultTotal is the time of a job where neither it nor its task says, and mostWaiting bounds the parts of
// jobs that wait for one worker.
const (
	defaultTotal = time.Second
	mostWaiting  = 1000
)

func newModel(c *Config, m *Model) (s *model, err error) {
	s = &model{Model: m, largest: c.Largest}
	for i := range m.Options {
		var mask uint64
		for _, name := range m.Options[i].Modalities {
			mask |= 1 << slices.Index(m.Modalities, name)
		}
		s.masks = append(s.masks, mask)
	}
	s.changed.L = &s.mu
	s.pool, s.entries, err = c.Pool(m)
	return s, err
}

// Pool makes the pool of a model's workers, and lists the options that their plans choose from.
func (c *Config) Pool(m *Model) (*rm.Pool, []Planned, error) {
	p := &rm.Pool{Most: mostWaiting}
	var options []Planned
	for t := range m.Tasks {
		for o := range m.Options {
			if _, ok := m.Tasks[t].Quality[m.Options[o].Variant]; ok {
				options = append(options, Planned{t, o})
			}
		}
	}
	for i := range m.Workers {
		table, err := c.table(m, &m.Workers[i], options)
		var policy rm.Policy
		if err == nil {
			policy, err = c.policy(table)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("model %q, worker %q: %w", m.Name, m.Workers[i].Name, err)
		}
		w := rm.NewWorker(table, policy)
		w.Fixed = c.Fixed
		p.Workers = append(p.Workers, w)
	}
	return p, options, nil
}

// table is the planner's for a worker.
func (c *Config) table(m *Model, w *Worker, planned []Planned) (*rm.Table, error) {
	var options []rm.Option
	size := 0
	for _, e := range planned {
		t, o := &m.Tasks[e.Task], &m.Options[e.Option]
		options = append(options, rm.Option{Name: o.Variant + " for " + t.Name, Quality: t.Quality[o.Variant], Latency: w.Latency[e.Option]})
		size = max(size, len(w.Latency[e.Option]))
	}
	if c.Largest > 0 {
		size = min(size, c.Largest)
	}
	mixing := cmp.Or(c.Mixing, rm.Mixed)
	if c.NewTable != nil {
		return c.NewTable(m.Name, w.Name, options, mixing, size)
	}
	return rm.NewTable(options, mixing, size)
}

// policy makes the one of the configuration.
func (c *Config) policy(t *rm.Table) (rm.Policy, error) {
	if c.NewPolicy != nil {
		return c.NewPolicy(t)
	}
	return rm.Named(cmp.Or(c.Policy, rm.Names[0]), t, rand.New(rand.NewPCG(c.Seed, 0)))
}

// allowed has the bits of the planner's options that answer the task by some of the modalities
// that are there, and that the client may use.
func (s *model) allowed(task int, there uint64, may func(variant string) bool) (bits uint64) {
	for i, e := range s.entries {
		if e.Task == task && s.masks[e.Option]&^there == 0 && (may == nil || may(s.Options[e.Option].Variant)) {
			bits |= 1 << i
		}
	}
	return bits
}

// best is the highest quality of the options with a bit, and the option's name.
func (s *model) best(bits uint64) (quality float64, variant string) {
	quality = math.Inf(-1)
	for i, e := range s.entries {
		name := s.Options[e.Option].Variant
		if q := s.Tasks[e.Task].Quality[name]; bits>>i&1 == 1 && q > quality {
			quality, variant = q, name
		}
	}
	return quality, variant
}

// longest is the largest job that some worker can be given of the options with a bit.
func (s *model) longest(bits uint64) (most int) {
	for w := range s.Workers {
		for i, e := range s.entries {
			if bits>>i&1 == 1 {
				most = max(most, len(s.Workers[w].Latency[e.Option]))
			}
		}
	}
	if s.largest > 0 {
		most = min(most, s.largest)
	}
	return most
}

// mask is that of the modalities named; an unknown one is reported.
func (s *model) mask(names []string) (mask uint64, unknown string) {
	for _, name := range names {
		i := slices.Index(s.Modalities, name)
		if i < 0 {
			return 0, name
		}
		mask |= 1 << i
	}
	return mask, ""
}

// named are the modalities of a mask.
func (s *model) named(mask uint64) []string {
	names := []string{}
	for i, name := range s.Modalities {
		if mask>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
