package draft

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/router/policy"
)

// Value describes an assumption of a scenario that is made from engines, with its source.
type Value struct {
	What  string `json:"what"`
	Value string `json:"value"`
	// From names the source: an engine, a measurement, a guess.
	From string `json:"from"`
}

// patience is the guessed deadline, as a multiple of the slowest size's time per token alone.
const patience = 1.2

// Probed returns the scenario of a fleet whose models have each answered a probe, and the values in it that
// the user has not named. A deadline of 0 is 1.2 times the time per token of the slowest size alone:
// too long a deadline costs more than one that is too short, as answers past the true one are worth nothing.
func (f *Fleet) Probed(name string, deadlineMS float64) (doc []byte, values []Value, err error) {
	slowest := slices.MaxFunc(f.Variants, func(a, b Variant) int { return int(math.Copysign(1, a.StepMS-b.StepMS)) })
	c := Choices{Name: name, Task: "chat", Quality: f.Qualities(), QualitySaid: len(f.Variants) == 1, Fallback: policy.Untuned}
	if c.DeadlineMS = deadlineMS; deadlineMS == 0 {
		c.DeadlineMS = tidy(patience * slowest.StepMS)
		c.DeadlineFrom = fmt.Sprintf("%s%v times the %s ms per token that %s took for a short request alone", guess, patience, short1(slowest.StepMS), slowest.Name)
	}
	if doc, _, err = f.Document(c); err != nil {
		return nil, nil, err
	}
	return doc, f.values(c), nil
}

// values lists the assumptions of the scenario.
func (f *Fleet) values(c Choices) []Value {
	var names, steps []string
	for _, v := range f.Variants {
		names, steps = append(names, v.Name), append(steps, short1(v.StepMS)+" ms")
	}
	var list []Value
	if len(names) > 1 {
		order := "by " + f.Order
		if !f.Ordered {
			order = guess + f.Order
		}
		qualities := make([]string, len(names))
		for i := range names {
			qualities[i] = short1(c.Quality[i])
		}
		list = append(list, Value{"sizes, in order", strings.Join(names, ", "), order},
			Value{"quality", strings.Join(qualities, ", "), guess + "even steps in the order of size"})
	}
	deadline := "declared"
	if c.DeadlineFrom != "" {
		deadline = guess + fmt.Sprintf("%v times that of the slowest size; --deadline-ms declares it", patience)
	}
	prompt, output := f.requests()
	list = append(list,
		Value{"time per token alone", strings.Join(steps, ", "), "measured by one short request to each"},
		Value{"deadline per token", short1(c.DeadlineMS) + " ms", deadline},
		Value{"time under load", "by the size", guess + "of a usual GPU, until requests have been timed"},
		Value{"KV caches", f.caches(), f.cachesFrom()},
		Value{"prompts and answers", fmt.Sprintf("%d and %d tokens in the mean", prompt.mean, output.mean), lengthsFrom(prompt)},
	)
	return list
}

// lengthsFrom names the source of the lengths of requests.
func lengthsFrom(l lengths) string {
	if l.answered > 0 {
		return fmt.Sprintf("the %d requests that the engines have answered", l.answered)
	}
	return guess + "usual for chats"
}

// caches returns the tokens that each replica's KV cache holds.
func (f *Fleet) caches() string {
	var list []string
	for _, r := range f.Replicas {
		tokens, _ := r.Model.tokens()
		if text := grouped(fmt.Sprint(tokens), ","); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, " or ") + " tokens"
}

// cachesFrom describes how many engines report their caches.
func (f *Fleet) cachesFrom() string {
	silent := 0
	for _, r := range f.Replicas {
		if _, said := r.Model.tokens(); !said {
			silent++
		}
	}
	switch silent {
	case 0:
		return "as the engines report"
	case len(f.Replicas):
		return guess + "no engine reports its own"
	}
	return fmt.Sprintf("as the engines report; %s%d of %d do not", guess, silent, len(f.Replicas))
}
