package workloads

import "gearshift/router/fleet"

// Shape is what requests look like, whenever they arrive: the workload section
// of a scenario.
type Shape struct {
	Mix    Mix     `yaml:"task_mix"`
	Prompt Lengths `yaml:"prompt_tokens"`
	Output Lengths `yaml:"output_tokens"`
}

// Within is the shape with lengths that lack a max cut so that each request fits into
// so many tokens: outputs to what is left beside the longest prompt, prompts beside the
// longest output, and both, where neither has a max, in proportion to their means.
func (s Shape) Within(tokens int) Shape {
	tokens = min(tokens, 2*MaxTokens)
	prompt, output := s.Prompt.Longest(), s.Output.Longest()
	switch {
	case !s.Prompt.Unbounded():
	case s.Output.Unbounded():
		s.Prompt.Max = min(MaxTokens, tokens*prompt/(prompt+output))
	default:
		s.Prompt.Max = min(MaxTokens, tokens-output)
	}
	if s.Output.Unbounded() {
		s.Output.Max = min(MaxTokens, tokens-s.Prompt.Longest())
	}
	return s
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
