package besteffort

import (
	"fmt"
	"slices"

	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// The paper's other scenarios, made of its first: copies that differ in one thing.

// softened has soft deadlines on all tasks (LBE-3).
func softened(s *scenario.Scenario) *scenario.Scenario {
	c := *s
	c.Tasks = slices.Clone(s.Tasks)
	for i := range c.Tasks {
		c.Tasks[i].Decay = scenario.Soft
	}
	return &c
}

// otherDeadlines gives each task named its deadline times the factor (LBE-5).
func otherDeadlines(s *scenario.Scenario, factors map[string]float64) *scenario.Scenario {
	c := *s
	c.Tasks = slices.Clone(s.Tasks)
	for i := range c.Tasks {
		if factor, ok := factors[c.Tasks[i].Name]; ok {
			c.Tasks[i].DeadlineMS *= factor
		}
	}
	return &c
}

// only has requests of the tasks named, alike often (LBE-29).
func only(s *scenario.Scenario, tasks ...string) *scenario.Scenario {
	c := *s
	c.Workload.Mix = workloads.Mix{}
	for _, t := range s.Tasks {
		c.Workload.Mix[t.Name] = 0
		if slices.Contains(tasks, t.Name) {
			c.Workload.Mix[t.Name] = 1
		}
	}
	return &c
}

// doubled has each host twice, with what stands on it (LBE-30).
func doubled(s *scenario.Scenario) *scenario.Scenario {
	c := *s
	twin := func(host string) string { return host + "-twin" }
	c.Hosts = slices.Clone(s.Hosts)
	for _, h := range s.Hosts {
		h.Name = twin(h.Name)
		c.Hosts = append(c.Hosts, h)
	}
	twice := func(hosts []string) []string {
		all := slices.Clone(hosts)
		for _, h := range hosts {
			all = append(all, twin(h))
		}
		return all
	}
	c.Replicas = slices.Clone(s.Replicas)
	for i := range c.Replicas {
		c.Replicas[i].Hosts = twice(c.Replicas[i].Hosts)
	}
	c.Models = slices.Clone(s.Models)
	for i := range c.Models {
		c.Models[i].Hosts = twice(c.Models[i].Hosts)
	}
	return &c
}

// taskNames lists the tasks in the scenario's order.
func taskNames(s *scenario.Scenario) []string {
	names := make([]string, len(s.Tasks))
	for i, t := range s.Tasks {
		names[i] = t.Name
	}
	return names
}

// severalSizes says what any comparison of policies with the largest size needs that the
// scenario lacks.
func severalSizes(s *scenario.Scenario, preset string) error {
	if len(s.Variants) < 2 {
		return fmt.Errorf("scenario %s has one variant; the paper's evaluation compares at least two: start from titan-rtx-opt", s.Name)
	}
	_, err := s.Preset(preset)
	return err
}

// suitable says what the report needs that the scenario lacks.
func suitable(s *scenario.Scenario, preset string) error {
	for _, name := range []string{"hellaswag", "copa", "piqa", "openbookqa"} {
		if !slices.Contains(taskNames(s), name) {
			return fmt.Errorf("scenario %s has no task %q; the paper's evaluation needs its four tasks: start from titan-rtx-opt", s.Name, name)
		}
	}
	if err := severalSizes(s, preset); err != nil {
		return err
	}
	config, err := s.Preset(preset)
	if err != nil {
		return err
	}
	soft, _ := lengths(preset)
	if n := soft.decisions(config); n <= config.Warmup {
		return fmt.Errorf("scenario %s, preset %s: the policy for soft deadlines trains for %d of its %d decisions, which are not above its warmup of %d: want more decisions or less warmup",
			s.Name, preset, n, config.Decisions, config.Warmup)
	}
	return nil
}
