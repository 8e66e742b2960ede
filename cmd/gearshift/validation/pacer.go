package validation

import (
	"context"
	"math"

	"gearshift/serving/loadgen"
)

// pacerVolley is how many requests at once a [Pacer] sends.
const pacerVolley = 4

// Pacer tells how slow the engines of a scenario are, between other loads.
type Pacer struct{ live *live }

// NewPacer is a pacer of the engines at the URL of their server, or where that is empty at
// the scenario's upstreams. Whoever calls it closes it.
func NewPacer(ctx context.Context, scenario, url string, seed uint64) (*Pacer, error) {
	l, err := newLive(Options{Scenario: scenario, Upstreams: url, What: []string{Alone}, Volley: pacerVolley, Seed: seed})
	if err != nil {
		return nil, err
	}
	return l.pacer(ctx)
}

func (l *live) pacer(ctx context.Context) (*Pacer, error) {
	targets, err := l.aims()
	if err != nil {
		return nil, err
	}
	if l.client, err = loadgen.NewClient(ctx, targets, l.Seed, l.by); err != nil {
		return nil, err
	}
	return &Pacer{live: l}, nil
}

// Slowness is how many times as long as their profiles say the engines' steps take at
// present, each asked alone: the geometric mean of those that answer; 0 if none does.
func (p *Pacer) Slowness(ctx context.Context) (float64, error) {
	var logs, n float64
	for replica, target := range p.live.targets {
		if target < 0 {
			continue
		}
		by, err := p.live.slow(ctx, replica)
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
func (p *Pacer) Close() { p.live.client.Close() }
