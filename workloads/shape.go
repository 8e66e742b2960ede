package workloads

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"gearshift/router/fleet"
)

// Shape is what requests look like, whenever they arrive: the workload section
// of a scenario.
type Shape struct {
	Mix    Mix     `yaml:"task_mix"`
	Prompt Lengths `yaml:"prompt_tokens,omitempty"`
	Output Lengths `yaml:"output_tokens,omitempty"`
	// Tasks are those whose requests have lengths of their own, by name.
	Tasks map[string]TaskLengths `yaml:"task_lengths,omitempty"`
	// Prompts names the labelled prompts that requests carry: a built-in set, or a file.
	Prompts string `yaml:"prompts,omitempty"`
	// Carried are those prompts that requests of a task may carry, by the task's index, as
	// indexes into what is played. Nil: requests carry none.
	Carried [][]int32 `yaml:"-"`
}

// TaskLengths stand in for those of all requests, each where it is given.
type TaskLengths struct {
	Prompt Lengths `yaml:"prompt_tokens,omitempty"`
	Output Lengths `yaml:"output_tokens,omitempty"`
}

// Of returns the lengths of a task's requests.
func (s Shape) Of(task string) (prompt, output Lengths) {
	prompt, output = s.Prompt, s.Output
	own := s.Tasks[task]
	if own.Prompt.given() {
		prompt = own.Prompt
	}
	if own.Output.given() {
		output = own.Output
	}
	return prompt, output
}

// Expected returns the mean lengths of a request, be it of which task it may.
func (s Shape) Expected(tasks []fleet.Task) (prompt, output float64) {
	for i, share := range s.Mix.Shares(tasks) {
		p, o := s.Of(tasks[i].Name)
		prompt += share * p.Expected()
		output += share * o.Expected()
	}
	return prompt, output
}

// WithMeans returns the shape with lengths of these means, log-normal, within the bounds that there are.
func (s Shape) WithMeans(prompt, output float64) Shape {
	with := func(l Lengths, mean float64) Lengths {
		most := l.Max
		if most == 0 {
			most = MaxTokens
		}
		return Lengths{Distribution: "lognormal", Mean: max(1, min(mean, float64(most))), CV: 1, Max: l.Max}
	}
	s.Prompt, s.Output = with(s.Prompt, prompt), with(s.Output, output)
	return s
}

// Longest returns a bound of the lengths of any task's requests, as [Lengths.Longest] is.
func (s Shape) Longest() (prompt, output int) {
	prompt, output = s.Prompt.Longest(), s.Output.Longest()
	for _, own := range s.Tasks {
		prompt, output = max(prompt, own.Prompt.Longest()), max(output, own.Output.Longest())
	}
	return prompt, output
}

// OutputSampler draws the output of a request whose task is not known.
func (s Shape) OutputSampler(tasks []fleet.Task) func(*rand.Rand) int {
	if len(s.Tasks) == 0 {
		return s.Output.Sampler()
	}
	choose, samplers := s.Mix.chooser(tasks), s.samplers(tasks)
	return func(rng *rand.Rand) int { return samplers[choose.choose(rng)].output(rng) }
}

// samplers returns those of each task's lengths.
func (s Shape) samplers(tasks []fleet.Task) []samplers {
	list := make([]samplers, len(tasks))
	for i, t := range tasks {
		prompt, output := s.Of(t.Name)
		list[i] = samplers{prompt.Sampler(), output.Sampler()}
	}
	return list
}

type samplers struct{ prompt, output func(*rand.Rand) int }

// Within returns the shape with lengths that lack a max cut so that each request fits into
// so many tokens: outputs to what the longest prompt leaves, prompts to what is left by the
// longest output, and both, where neither has a max, in proportion to their means.
func (s Shape) Within(tokens int) Shape {
	tokens = min(tokens, 2*MaxTokens)
	prompt, output := s.Longest()
	switch {
	case !s.Prompt.Unbounded():
	case s.Output.Unbounded():
		s.Prompt.Max = min(MaxTokens, tokens*prompt/(prompt+output))
	default:
		s.Prompt.Max = min(MaxTokens, tokens-output)
	}
	if s.Output.Unbounded() {
		prompt, _ = s.Longest()
		s.Output.Max = min(MaxTokens, tokens-prompt)
	}
	return s
}

// Validate names every fault by its key, as joined [KeyError].
func (s Shape) Validate(tasks []fleet.Task) error {
	var f keyFaults
	f.addIf(len(tasks) == 0, "task_mix", "there is no task to choose from")
	f.nest("task_mix", s.Mix.Validate(tasks))
	for _, name := range slices.Sorted(maps.Keys(s.Tasks)) {
		f.addIf(!slices.Contains(taskNames(tasks), name), "task_lengths."+name, "is not a task of this fleet; one of %s would be right", strings.Join(taskNames(tasks), ", "))
	}
	return errors.Join(f.Err(), s.ValidateLengths())
}

// ValidateLengths is Validate without the names of tasks.
func (s Shape) ValidateLengths() error {
	var f keyFaults
	f.nest("prompt_tokens", s.Prompt.validatePrompt())
	f.nest("output_tokens", s.Output.Validate())
	for _, name := range slices.Sorted(maps.Keys(s.Tasks)) {
		key, own := "task_lengths."+name, s.Tasks[name]
		f.nest(key+".prompt_tokens", errors.Join(own.Prompt.validateOwn(), own.Prompt.notNone()))
		f.nest(key+".output_tokens", own.Output.validateOwn())
	}
	return f.Err()
}

// validateOwn is Validate of a task's own lengths, which may be left out and have a
// max: one that follows from the replicas would change the world with them.
func (l Lengths) validateOwn() error {
	if !l.given() {
		return nil
	}
	var f keyFaults
	f.addIf(l.Unbounded(), "max", "missing; a task's own lengths need one")
	return errors.Join(l.Validate(), f.Err())
}

// validatePrompt is Validate of prompts, which have a token at least.
func (l Lengths) validatePrompt() error {
	if err := l.notNone(); err != nil {
		return err
	}
	return l.Validate()
}

func (l Lengths) notNone() error {
	var f keyFaults
	f.addIf(l.Distribution == "none", "distribution", "%q is for output_tokens alone; constant, uniform, geometric or lognormal would be right", l.Distribution)
	return f.Err()
}

// given reports whether there are such lengths at all.
func (l Lengths) given() bool { return l != (Lengths{}) }
