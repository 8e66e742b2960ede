package workloads

import "gearshift/router/fleet"

// Shape is what requests look like, whenever they arrive: the workload section
// of a scenario.
type Shape struct {
	Mix    Mix     `yaml:"task_mix"`
	Prompt Lengths `yaml:"prompt_tokens"`
	Output Lengths `yaml:"output_tokens"`
}

// Validate names every fault by its key, as joined [KeyError].
func (s Shape) Validate(tasks []fleet.Task) error {
	var f faults
	if len(tasks) == 0 {
		f.add("task_mix", "there is no task to choose from")
	}
	f.nest("task_mix", s.Mix.Validate(tasks))
	f.nest("prompt_tokens", s.Prompt.Validate())
	f.nest("output_tokens", s.Output.Validate())
	return f.err()
}
