package placements

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/nn"
	"gearshift/router/placement/layouts"
	"gearshift/workloads"
)

// Options say what is trained.
type Options struct {
	Scenario *scenario.Scenario
	Seed     uint64
	// Episodes counts those that are played, Usual or Quick for a first look.
	Episodes int
	Report   func(done, total int) // may be nil

	length time.Duration // of episodes; 0 is usualLength
}

const (
	Usual, Quick = 6_000, 1_920
	// same is the number of episodes that all networks of a generation play.
	same = 15
	// judged is the number of episodes that choose the best rule, and that then compare it with the policy.
	judged = 200
	// heldOut is the number of the first episode that compares.
	heldOut = 1000
)

// Train trains a policy: a search over the parameters of its network, in which all networks of a generation meet the
// same requests, so that they differ by their changes alone. The same options make the same policy.
func Train(ctx context.Context, o Options) (*nn.MLP, error) {
	j, err := newJudge(o)
	if err != nil {
		return nil, err
	}
	s := newSearch((layouts.LearnedInputs+1)*layouts.LearnedOutputs, o.Seed)
	for done := 0; done < o.Episodes; done += population * same {
		var deciders []decider
		for _, x := range s.draw() {
			deciders = append(deciders, learned(network(x)))
		}
		earned, err := j.play(ctx, workloads.Training, o.Seed<<32|uint64(done), same, deciders...)
		if err != nil {
			return nil, fmt.Errorf("cannot train: %w", err)
		}
		sums := make([]float64, len(earned))
		for k := range earned {
			sums[k] = sum(earned[k])
		}
		s.learn(sums)
		if o.Report != nil {
			o.Report(min(done+population*same, o.Episodes), o.Episodes)
		}
	}
	return network(s.mean), nil
}

func sum(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum
}

// network returns the one of these parameters.
func network(parameters []float64) *nn.MLP {
	m, _ := nn.New(layouts.LearnedInputs, layouts.LearnedOutputs) // sizes that make one
	for i, x := range parameters {
		if n := len(m.Weights[0]); i < n {
			m.Weights[0][i] = float32(x)
		} else {
			m.Biases[0][i-n] = float32(x)
		}
	}
	return m
}

func learned(m *nn.MLP) decider {
	return func() (layouts.Rule, error) { return layouts.NewLearned(m) }
}

func fixed() (layouts.Rule, error) { return layouts.Stay(), nil }

// rules are those that a policy has to beat.
var rules = []string{
	"worth:0.003,10,10,1.2", "worth:0.002,4,5,1.2", "worth:0.006,10,20,1.2", "worth:0.003,30,30,1.2", "worth:0.003,30,60,1.5",
	"bands:0.3,0.27,20,10", "bands:0.3,0.2,60,30", "bands:0.4,0.3,30,10",
}

// Compare returns what a policy gains over layouts that stay and over the best rule, which other episodes choose.
func Compare(ctx context.Context, m *nn.MLP, o Options) ([]policies.PlacementGain, error) {
	j, err := newJudge(o)
	if err != nil {
		return nil, err
	}
	var deciders []decider
	for _, text := range rules {
		deciders = append(deciders, func() (layouts.Rule, error) { return layouts.Parse(text) })
	}
	earned, err := j.play(ctx, workloads.Validation, 0, judged, deciders...)
	if err != nil {
		return nil, err
	}
	best := 0
	for k := range earned {
		if sum(earned[k]) > sum(earned[best]) {
			best = k
		}
	}
	if earned, err = j.play(ctx, workloads.Validation, heldOut, judged, learned(m), fixed, deciders[best]); err != nil {
		return nil, err
	}
	var gains []policies.PlacementGain
	for k, over := range []string{"layouts that stay", rules[best]} {
		by, err := evaluation.Paired(earned[0], earned[k+1])
		if err != nil {
			return nil, err
		}
		gains = append(gains, policies.PlacementGain{Over: over, By: by})
	}
	return gains, nil
}
