package training

import (
	"context"
	"fmt"
	"math"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/router/nn"
	"gearshift/router/policy"
)

// deviation is what it takes that a policy deviates from advice: a margin, and the
// caution of [policy.Trust].
type deviation struct{ margin, caution float64 }

// deviations returns those that a run chooses from, the least first. Several networks disagree
// where they know little, so that there more is asked, and maybe more everywhere; of a
// single one that is all that can be done.
func (r *run) deviations() (list []deviation) {
	margins, cautions := []float64{1, 2, 4, 8}, []float64{0.5, 1, 1.5, 2}
	if len(r.members) == 1 {
		margins, cautions = []float64{1, 2, 4, 8, 16, 32, 64}, []float64{0}
	}
	for _, times := range margins {
		for _, caution := range cautions {
			list = append(list, deviation{times * r.config.AdviceMargin, caution})
			if times > 2 {
				break // so large a margin leaves caution little to do, and each try takes its time
			}
		}
	}
	return list
}

// adviceAlone deviates nowhere, whatever the peaks of tasks are worth. Of several networks it
// has a caution like the others, by which a checkpoint knows them to be several.
func (r *run) adviceAlone(deviations []deviation) deviation {
	peak := 1.0
	tasks := r.scenario.Table().Tasks
	for i := range tasks {
		peak = max(peak, tasks[i].Peak())
	}
	return deviation{margin: peak * checkpoints.AdviceAlone, caution: deviations[0].caution}
}

// network returns that of the policy, with the deviation from advice that validates best.
func (r *run) network(ctx context.Context) (*nn.MLP, error) {
	networks := make([]*nn.MLP, len(r.members))
	for i, m := range r.members {
		networks[i] = m.result.Network
	}
	r.meta.AdviceMargin, r.meta.Caution = 0, 0
	if r.config.AdviceMargin == 0 {
		mean, err := nn.Mean(networks...)
		if short, loss := r.meta.Spec.PriorInputs(); err == nil && r.config.DifferenceRewards && short >= 0 {
			return r.mixed(ctx, mean, short, loss)
		}
		return mean, err
	}
	judge, progress := r.judge.Closer(), r.judge.Progress
	judge.Progress = nil // of each deviation; they are counted themselves
	deviations := r.deviations()
	better := higher(judge.Score)
	if r.meta.Objective != "" {
		deviations = append([]deviation{r.adviceAlone(deviations)}, deviations...)
		better = surelyHigher(judge.Runs)
	}
	var chosen *nn.MLP
	for i, d := range deviations {
		network, err := r.deployed(d.margin, networks...)
		if err != nil {
			return nil, err
		}
		best, err := better(ctx, network, policy.Trust{Seen: r.meta.Seen, Caution: d.caution})
		if err != nil {
			return nil, err
		}
		if best {
			chosen = network
			r.meta.AdviceMargin, r.meta.Caution = d.margin, d.caution
		}
		if progress != nil {
			progress(i+1, len(deviations))
		}
	}
	return chosen, nil
}

// comparison says whether a network scores better than all that it was asked of before.
type comparison func(ctx context.Context, network *nn.MLP, trust policy.Trust) (bool, error)

// higher compares mean scores.
func higher(score func(context.Context, *nn.MLP, policy.Trust) (float64, error)) comparison {
	best := math.Inf(-1)
	return func(ctx context.Context, network *nn.MLP, trust policy.Trust) (bool, error) {
		x, err := score(ctx, network, trust)
		if err != nil || x <= best {
			return false, err
		}
		best = x
		return true, nil
	}
}

// surelyHigher compares mean scores too, but of those after the first only such as are above
// that one by more than chance: shares of windows vary so much from run to run that the best
// of many tries on few seeds is often none.
func surelyHigher(runs func(context.Context, *nn.MLP, policy.Trust) ([]float64, error)) comparison {
	var first []float64
	best := 0.0 // above the first
	return func(ctx context.Context, network *nn.MLP, trust policy.Trust) (bool, error) {
		x, err := runs(ctx, network, trust)
		if err != nil {
			return false, err
		}
		if first == nil {
			first = x
			return true, nil
		}
		over, err := evaluation.Paired(x, first)
		if err != nil || over.Lo <= 0 || over.Mean <= best {
			return false, err
		}
		best = over.Mean
		return true, nil
	}
}

// mixed returns what validates best of the network and its mixtures with what it began with. Where rewards
// are noisy compared with the differences between replicas, a part of what is learnt is better than all.
func (r *run) mixed(ctx context.Context, network *nn.MLP, inputs ...int) (chosen *nn.MLP, err error) {
	judge, progress := r.judge.Closer(), r.judge.Progress
	judge.Progress = nil // of each share; they are counted themselves
	better, shares := higher(judge.Score), []float32{1, 0.5, 0.25, 0}
	for i, share := range shares {
		mixture := network
		if share < 1 {
			if mixture, err = network.Mixed(share, inputs...); err != nil {
				return nil, err
			}
		}
		best, err := better(ctx, mixture, policy.Trust{})
		if err != nil {
			return nil, err
		}
		if best {
			chosen = mixture
			r.learnt = fmt.Sprintf("of what was learnt, %.0f %% validates best; the rest is what it began with\n", 100*share)
		}
		if progress != nil {
			progress(i+1, len(shares))
		}
	}
	return chosen, nil
}
