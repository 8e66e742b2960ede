package fit

import (
	"fmt"
	"time"

	"gearshift/env/engine"
	"gearshift/router/profile"
)

// Model is what an engine needs in order to be simulated.
type Model struct {
	Profile profile.Profile `yaml:"-"` // which a file has under profiles
	Engine  engine.Config   `yaml:"engine"`
	// KVTokens is how many tokens the KV cache holds.
	KVTokens int `yaml:"kv_tokens"`
}

// Times are a request's times in seconds, from the first arrival.
type Times struct{ First, Last float64 }

// Predict simulates the log's arrivals and token counts and returns each
// request's times. It reads nothing else of the log. It fails where a request
// does not fit into the KV cache.
func (m *Model) Predict(requests []Request) ([]Times, error) {
	times, _, err := m.simulate(requests, mostSteps(requests))
	return times, err
}

// simulate is Predict in at most so many steps of the engine, and counts them.
func (m *Model) simulate(requests []Request, most int) ([]Times, int, error) {
	e, err := engine.New(m.Engine, &m.Profile, m.KVTokens)
	if err != nil {
		return nil, 0, err
	}
	host := engine.NewHost(e)
	out := make([]Times, len(requests))
	var events []engine.Event
	steps := 0
	step := func() {
		events = host.Step(events[:0])
		steps++
		for _, event := range events {
			if event.Kind == engine.FirstToken {
				out[event.ID].First = event.At.Seconds()
			} else {
				out[event.ID].Last = event.At.Seconds()
			}
		}
	}
	for i, r := range requests {
		s := engine.Sequence{ID: uint64(i), PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens}
		if !e.Fits(s) {
			return nil, 0, fmt.Errorf("request %s of %d tokens does not fit into a KV cache of %d", r.ID, r.PromptTokens+r.OutputTokens, m.KVTokens)
		}
		now := time.Duration(r.Arrival * float64(time.Second))
		for steps < most {
			if at, ok := host.Next(); !ok || at > now {
				break
			}
			step()
		}
		host.Submit(0, s, now)
	}
	for steps < most {
		if _, ok := host.Next(); !ok {
			return out, steps, nil
		}
		step()
	}
	return nil, 0, fmt.Errorf("the model needs more than %d steps", most)
}

// mostSteps bounds a simulation: a hopeless model would preempt for ever and a
// day where a fair one needs no more than a step a token.
func mostSteps(requests []Request) int {
	const ofPrompt = 64 // pieces that a prompt may come to
	steps := 0
	for _, r := range requests {
		steps += 2 * (r.OutputTokens + ofPrompt)
	}
	return steps
}
