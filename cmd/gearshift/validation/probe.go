package validation

import (
	"context"
	"math"

	"gearshift/serving/loadgen"
)

// probeVolley is how many requests at once a [Probe] sends.
const probeVolley = 4

// Probe tells how slow the engines of a scenario are, between other loads.
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

// Slowness is how many times as long as their profiles say the engines' steps take at
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
