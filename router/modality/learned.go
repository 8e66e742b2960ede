package modality

import (
	"fmt"
	"math"

	"gearshift/router/nn"
)

// Learned is the policy that a network makes of the exact plan: for the job that runs next it
// takes the action that the network values highest. The values have been learnt with the
// plan's own strategy as advice, and what another action must be worth more is part of the
// network. Where an observation is beyond what training has met, or a value is not finite,
// the plan stands.
type Learned struct {
	*Chooser
	network *nn.MLP
	seen    []float32
	values  [Actions]float32
	scratch []float32
	left    []Job // those not dropped, while one is
	index   []int // of them among all
	rest    Plan
}

// Network is what a stored policy consists of.
type Network struct {
	// Weights maps an observation of [Chooser.Observe] to the values of the actions.
	Weights *nn.MLP
	// Cautions are those of the plan that is its advice.
	Cautions Cautions
	// Seen is the largest value of each input in training; nil if that is not known.
	Seen []float32
}

// Validate reports whether the network is one of a chooser's observations and actions. These
// do not depend on a model's options, so that one network serves any.
func (n *Network) Validate() error {
	if in, out := n.Weights.Inputs(), n.Weights.Outputs(); in != Observed || out != Actions {
		return fmt.Errorf("the network maps %d inputs to %d values; want %d and %d", in, out, Observed, Actions)
	}
	if k := len(n.Seen); k != 0 && k != Observed {
		return fmt.Errorf("the range of %d inputs is known; want %d or none", k, Observed)
	}
	return n.Cautions.Validate()
}

// NewLearned makes the policy. It is an error if the network is not one of a chooser's
// observations and actions.
func NewLearned(t *Table, n Network) (*Learned, error) {
	if err := n.Validate(); err != nil {
		return nil, fmt.Errorf("cannot make policy: learned: %w", err)
	}
	return &Learned{
		Chooser: NewChooser(t, n.Cautions), network: n.Weights.Banded(), seen: n.Seen,
		scratch: make([]float32, n.Weights.Scratch()),
	}, nil
}

// Plan implements [Policy].
func (p *Learned) Plan(free float64, jobs []Job, plan *Plan) {
	p.Foresighted.Plan(free, jobs, plan)
	dropped := 0
	for len(plan.Steps) > 0 {
		action := p.choose(p.Observe(free, jobs, plan))
		p.Take(action, jobs, plan)
		if action != ActDrop {
			return
		}
		if dropped++; dropped == len(jobs) {
			return
		}
		p.again(free, jobs, plan)
	}
}

// again plans the jobs of the plan without those that it drops.
func (p *Learned) again(free float64, jobs []Job, plan *Plan) {
	p.left, p.index = p.left[:0], p.index[:0]
	for _, s := range plan.Steps {
		p.left, p.index = append(p.left, jobs[s.Job]), append(p.index, s.Job)
	}
	p.Foresighted.Plan(free, p.left, &p.rest)
	plan.Steps, plan.Objective, plan.Gap = plan.Steps[:0], p.rest.Objective, p.rest.Gap
	for _, s := range p.rest.Steps {
		s.Job = p.index[s.Job]
		plan.Steps = append(plan.Steps, s)
	}
	for _, i := range p.rest.Dropped {
		plan.Dropped = append(plan.Dropped, p.index[i])
	}
}

// choose is the action of the highest value; of equals the first.
func (p *Learned) choose(x []float32) int {
	for i, most := range p.seen {
		if x[i] > most {
			return ActPlan
		}
	}
	p.network.Forward(p.values[:], x, p.scratch)
	best := ActPlan
	for action, value := range p.values {
		if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
			return ActPlan
		}
		if value > p.values[best] {
			best = action
		}
	}
	return best
}
