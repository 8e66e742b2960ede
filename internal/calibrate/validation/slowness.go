package validation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gearshift/env"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/workloads"
)

// slowness is how many times as long as the profile says a variant's decode steps took
// just before and after a run, alone, and what is predicted of the run with the profile
// slowed by their mean. Of several turns it is the least and the most that was measured in
// one, and what is predicted with each turn as slow as that.
type slowness struct {
	Before   float64 `json:"before,omitempty"`
	After    float64 `json:"after,omitempty"`
	Least    float64 `json:"least,omitempty"`
	Most     float64 `json:"most,omitempty"`
	TPOT     pair    `json:"tpot_ms"`
	EndToEnd pair    `json:"e2e_ms"`
}

// volleyOutput is how many tokens each answer of a volley has.
const volleyOutput = 48

// volleys sends a volley to each replica of a run, one after the other, and returns how
// slow each is, by its index.
func (l *validator) volleys(ctx context.Context, list []sending) (map[int]float64, error) {
	slow := map[int]float64{}
	for _, a := range list {
		if _, done := slow[a.replica]; done || a.replica < 0 || l.Volley == 0 {
			continue
		}
		by, err := l.slow(ctx, a.replica)
		if err != nil {
			return nil, err
		}
		slow[a.replica] = by
	}
	return slow, nil
}

// slow returns how many times as long as the profile says the steps of a volley of mean
// prompts take; 0 if some of it is refused, which says nothing.
func (l *validator) slow(ctx context.Context, replica int) (float64, error) {
	prompt, _ := l.settings.Shape.Expected(l.settings.Tasks)
	_, longest := l.settings.Shape.Longest()
	a := workloads.Arrival{PromptTokens: int(math.Ceil(prompt)), OutputTokens: min(volleyOutput, longest)}
	s, err := l.sendOnce(ctx, slices.Repeat([]sending{{a, replica, l.targets[replica]}}, l.Volley))
	if err != nil || s.refused > 0 {
		return 0, err
	}
	predicted, err := simulatedRun(l.fleet, s.arrivals, &pinned{replicas: s.replicas})
	if err != nil {
		return 0, err
	}
	steps := lastToBegin(predicted).tpot
	if steps == 0 {
		return 0, nil // answers of one token
	}
	return lastToBegin(s.measured).tpot / steps, nil
}

// slownessOf returns what is known of the replica's in the runs of a load; nil if nothing is.
func slownessOf(replica int, turns []*sent) *slowness {
	s := &slowness{Before: turns[0].before[replica], After: turns[0].after[replica]}
	if s.Before == 0 || s.After == 0 {
		return nil
	}
	if len(turns) > 1 {
		*s = slowness{Least: s.Before, Most: s.Before}
		for _, t := range turns {
			s.Least, s.Most = min(s.Least, t.before[replica]), max(s.Most, t.before[replica])
		}
	}
	return s
}

// String returns the slowness in a table.
func (s *slowness) String() string {
	if s.Most > 0 {
		return fmt.Sprintf("%.2f to %.2f", s.Least, s.Most)
	}
	return fmt.Sprintf("%.2f, %.2f", s.Before, s.After)
}

// lastToBegin returns the request of a volley while which decodes, all of them do.
func lastToBegin(list []met) met {
	return slices.MaxFunc(list, func(a, b met) int { return cmp.Compare(a.first, b.first) })
}

// slowedBy returns the fleet as slow as it was found to be before and after the run.
func (l *validator) slowedBy(s *sent) env.Config {
	factors := slices.Repeat([]float64{1}, len(l.fleet.Table.Variants))
	for r := range s.before {
		if s.before[r] > 0 && s.after[r] > 0 {
			factors[l.fleet.Table.Replicas[r].Variant] = (s.before[r] + s.after[r]) / 2
		}
	}
	slowed := l.fleet
	slowed.SlowVariants(factors)
	return slowed
}

// probeVolley is how many requests at once a [Probe] sends.
const probeVolley = 4

// Probe measures how slow the engines of a scenario are, between other loads.
type Probe struct{ of *validator }

// NewProbe returns a probe of the engines at the URL of their server, or where that is empty at
// the scenario's upstreams. The caller closes it.
func NewProbe(ctx context.Context, scenario, url string, seed uint64) (*Probe, error) {
	l, err := newValidator(Options{Scenario: scenario, Upstreams: url, What: []string{Alone}, Volley: probeVolley, Seed: seed})
	if err != nil {
		return nil, err
	}
	return l.probe(ctx)
}

func (l *validator) probe(ctx context.Context) (*Probe, error) {
	targets, err := l.aims()
	if err != nil {
		return nil, err
	}
	if l.client, err = loadgen.NewClient(ctx, targets, l.Seed, l.by); err != nil {
		return nil, err
	}
	return &Probe{of: l}, nil
}

// Slowness returns how many times as long as their profiles say the engines' steps take at
// present, each asked alone: the geometric mean of those that answer; 0 if none does.
func (p *Probe) Slowness(ctx context.Context) (float64, error) {
	var logs, n float64
	for replica, target := range p.of.targets {
		if target < 0 {
			continue
		}
		by, err := p.of.slow(ctx, replica)
		if err != nil {
			return 0, err
		}
		if by > 0 {
			logs, n = logs+math.Log(by), n+1
		}
	}
	if n == 0 {
		return 0, nil
	}
	return math.Exp(logs / n), nil
}

// Close ends the connections.
func (p *Probe) Close() { p.of.client.Close() }
