package league

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/observation"
)

// Training configures the policy that is trained on each fleet.
type Training struct {
	Preset   string `json:"preset"`
	NoAdvice bool   `json:"no_advice,omitempty"` // no rule's, in training or in use
	Seed     uint64 `json:"seed"`
}

// name returns the name of the entry.
func (t *Training) name() string {
	if t.NoAdvice {
		return t.Preset + ", no advice"
	}
	return t.Preset
}

// Trainer trains a policy of the name on a scenario, unless the store has it, and returns a reference to it.
type Trainer func(ctx context.Context, t Training, name string, on *scenario.Scenario, store string) (ref string, err error)

// storeName is the file of the trained policies in the folder of results.
const storeName = "policies.db"

// trained returns the policy that is trained on the fleet of a seed, whose advice the rule gives.
func (l *League) trained(ctx context.Context, seed uint64, rule string) (entrant, error) {
	if l.Trainer == nil || l.Out == "" {
		return entrant{}, errors.New("no policy can be trained without a trainer and a folder")
	}
	s, err := advised(seed, rule, !l.Train.NoAdvice)
	if err != nil {
		return entrant{}, err
	}
	store := filepath.Join(l.Out, storeName)
	name := fmt.Sprintf("%s-%s", s.Name, l.Train.Preset)
	if l.Train.NoAdvice {
		name += "-no-advice"
	}
	ref, err := l.Trainer(ctx, *l.Train, name, s, store)
	return entrant{Entry{Trained, l.Train.name()}, ref, s, &policies.Source{Store: &checkpoints.Store{Path: store}}}, err
}

// advised returns the fleet of a seed with the rule as the one that advises policies, or with an observation
// of no advice.
func advised(seed uint64, rule string, advice bool) (*scenario.Scenario, error) {
	text, err := Draw(seed)
	if err != nil {
		return nil, err
	}
	s, err := Fleet(seed)
	if err != nil {
		return nil, err
	}
	key, more := "evaluation", map[string]any{"rules": []string{rule}}
	if !advice {
		features := slices.DeleteFunc(slices.Clone(s.Training.Observation), func(f observation.Feature) bool { return f.Kind == observation.Advice })
		key, more = "training", map[string]any{"observation": features}
	}
	section, err := json.Marshal(more) // of which YAML is a superset
	if err != nil {
		return nil, err
	}
	return scenario.Parse(s.Name+".yaml", fmt.Appendf(text, "\n%s: %s\n", key, section))
}
