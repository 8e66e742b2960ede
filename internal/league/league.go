package league

import (
	"context"
	"errors"
	"fmt"

	"gearshift/internal/training/policies"
)

// Settings select the competitors and the runs. Equal settings give equal results on a fleet.
type Settings struct {
	Workloads []string        `json:"workloads"`
	Tuning    policies.Effort `json:"tuning"`
	Runs      int             `json:"runs"`     // evaluation seeds of each policy on each workload
	Requests  int             `json:"requests"` // in an evaluation run
	Rates     int             `json:"rates"`    // of the sweep
	// Policies are references to those that compete with the rules.
	Policies []string `json:"policies,omitempty"`
	// Train, if not nil, has a policy trained on each fleet.
	Train *Training `json:"train,omitempty"`
	// Carried is the scenario whose evaluation.rules are played as they are.
	Carried string `json:"carried"`
}

// sweepRequests bounds the requests of a sweep, as a multiple of those of a run.
const sweepRequests = 10

// Usual returns the default settings.
func Usual() Settings {
	return Settings{
		Workloads: []string{"u1", "u2", "stable"}, Tuning: policies.Minute,
		Runs: 12, Requests: 2500, Rates: 7, Carried: policies.Known,
	}
}

// League plays fleets one after the other.
type League struct {
	Settings
	Seeds  []uint64 // of the fleets
	Out    string   // folder that keeps each fleet's results; empty: none
	Source *policies.Source
	// Trainer trains what the settings ask for; nil where this build cannot.
	Trainer Trainer
	// Counting returns a function that receives the progress of a fleet; nil shows nothing.
	Counting func(what string) func(done, total int)
	// Notice receives remarks for users of the results.
	Notice func(text string)
}

// Check refuses seeds of fleets that policies may be trained on, and seeds that are there twice.
func (l *League) Check() error {
	if len(l.Seeds) == 0 {
		return errors.New("no seeds of fleets: want a range such as 1-20")
	}
	seen := map[uint64]bool{}
	for _, seed := range l.Seeds {
		switch {
		case seed >= FirstTraining:
			return fmt.Errorf("fleet %d is one that policies may be trained on; want seeds below %d", seed, uint64(FirstTraining))
		case seen[seed]:
			return fmt.Errorf("fleet %d is there twice", seed)
		}
		seen[seed] = true
	}
	return nil
}

// Play plays all fleets and returns their results. Where it is interrupted it returns the results so far
// and the error.
func (l *League) Play(ctx context.Context) (*Report, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	r := &Report{Settings: l.Settings}
	for i, seed := range l.Seeds {
		what := fmt.Sprintf("fleet %d (%d of %d)", seed, i+1, len(l.Seeds))
		f, ok, err := l.stored(seed)
		if err == nil && !ok {
			if f, err = l.fleet(ctx, seed, what); err == nil {
				err = l.store(f)
			}
		}
		if err != nil {
			return r, fmt.Errorf("fleet %d: %w", seed, err)
		}
		r.Fleets = append(r.Fleets, f)
	}
	return r, nil
}
