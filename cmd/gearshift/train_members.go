//go:build !serveonly

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"gearshift/rl"
	"gearshift/rl/dqn"
	"gearshift/router/nn"
	"gearshift/workloads"
)

// member is one of a run's networks, whose mean is the policy. Each learns on its
// own, from a seed and on episodes of its own, at the same time as the others.
type member struct {
	number   int    // from 0
	run      string // the name that its progress is stored under
	seed     uint64
	envs     []*trainingEnv
	from     *nn.MLP      // the weights to begin with; nil if they are drawn
	progress *rl.Progress // to go on from; nil if it begins
	result   rl.Result
}

// addMembers makes the members; the first is what a run of one network is.
func (r *trainingRun) addMembers() error {
	for i := range max(1, r.config.Members) {
		m := &member{number: i, run: r.options.name, seed: r.options.seed + uint64(i)<<32}
		if i > 0 {
			m.run = fmt.Sprintf("%s+%d", r.options.name, i+1) // no policy's name has a +
		}
		for range max(1, r.config.Environments) {
			e, err := newTrainingEnv(r.scenario, r.meta.Spec, r.config.Episode)
			if err != nil {
				return err
			}
			m.envs = append(m.envs, e)
		}
		r.members = append(r.members, m)
	}
	return nil
}

// episodeSeed is the seed of an episode in the run of a seed: of the training domain,
// another for each member. Run and episode fill what a domain's seeds have room for,
// so those of the further members are drawn; the first one's are a single network's.
func (m *member) episodeSeed(run, episode uint64) uint64 {
	n := run<<24 | episode&(1<<24-1)
	if m.number > 0 {
		n = rand.NewPCG(n, uint64(m.number)).Uint64()
	}
	return workloads.Seed(workloads.Training, n)
}

// isRunOf says whether progress of that name is a run's, or that of one of its members.
func isRunOf(name, run string) bool {
	first, _, _ := strings.Cut(name, "+")
	return first == run
}

// train trains the members. Its error is the first that is more than an interruption:
// where one fails, the others are interrupted.
func (r *trainingRun) train(ctx context.Context, log *trainingLog) error {
	meta, err := json.Marshal(r.meta)
	if err != nil {
		return err
	}
	log.start(r)
	group, training := errgroup.WithContext(ctx)
	for _, m := range r.members {
		group.Go(func() error {
			err := r.trainMember(training, m, meta, log)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

func (r *trainingRun) trainMember(ctx context.Context, m *member, meta []byte, log *trainingLog) error {
	learner, rows, err := r.newLearner(m.seed)
	if err != nil {
		return err
	}
	if m.from != nil {
		if err := learner.StartFrom(m.from); err != nil {
			return fmt.Errorf("--from %q: %w", r.options.from, err)
		}
	}
	envs := make([]rl.Env, len(m.envs))
	for i, e := range m.envs {
		envs[i] = e
	}
	m.result, err = rl.Train(ctx, rl.Run{
		Config: r.config, Seed: m.seed, Stop: r.options.steps,
		Envs: envs, Learner: learner, Rows: rows,
		EpisodeSeed: func(episode uint64) uint64 { return m.episodeSeed(r.options.seed, episode) },
		Validate: func(network *nn.MLP) (float64, error) {
			return r.score(ctx, r.config.AdviceMargin, network)
		},
		Save: func(p *rl.Progress) error {
			b, err := p.MarshalBinary()
			if err != nil {
				return err
			}
			r.saving.Lock() // one at a time may open the store
			defer r.saving.Unlock()
			return r.store.PutTraining(m.run, meta, b)
		},
		Report: func(report rl.Report) { log.report(m.number, report) },
	}, m.progress)
	return err
}

// learner is what a member needs of one, of either kind.
type learner interface {
	rl.Learner
	StartFrom(m *nn.MLP) error
}

// newLearner makes the learner of the Spec's kind of policy, with weights drawn by
// the seed, and says how its observations divide.
func (r *trainingRun) newLearner(seed uint64) (learner, rl.Rows, error) {
	spec, rng := r.meta.Spec, rand.New(rl.Weights.PCG(seed))
	if !spec.Places() {
		l, err := dqn.New(r.config, spec.Dim(), len(spec.Variants), rng)
		return l, rl.Rows{}, err
	}
	rows := rl.Rows{Shared: spec.Dim(), Own: spec.Own(), Count: len(r.scenario.Table().Replicas)}
	l, err := dqn.NewRows(r.config, rows, rng)
	return l, rows, err
}

// decisions is how many every member has taken.
func (r *trainingRun) decisions() int {
	least := r.members[0].result.Decisions
	for _, m := range r.members[1:] {
		least = min(least, m.result.Decisions)
	}
	return least
}

// network is that of the policy. The margin by which it departs from advice is the
// one trained with, or as many doublings of it as validate best: values are as
// uncertain as the world is, and where they are worth nothing the advice is left.
func (r *trainingRun) network(ctx context.Context) (*nn.MLP, error) {
	networks := make([]*nn.MLP, len(r.members))
	for i, m := range r.members {
		networks[i] = m.result.Network
	}
	r.meta.AdviceMargin = r.config.AdviceMargin
	if r.config.AdviceMargin == 0 {
		return deployed(0, networks...)
	}
	margin, best := r.config.AdviceMargin, math.Inf(-1)
	for range marginDoublings + 1 {
		score, err := r.score(ctx, margin, networks...)
		if err != nil {
			return nil, err
		}
		if score > best {
			r.meta.AdviceMargin, best = margin, score
		}
		margin *= 2
	}
	return deployed(r.meta.AdviceMargin, networks...)
}

// marginDoublings is how often the margin is doubled at most; after so many there
// is next to nothing that a policy departs for.
const marginDoublings = 6

// score validates the policy of the networks.
func (r *trainingRun) score(ctx context.Context, margin float64, networks ...*nn.MLP) (float64, error) {
	network, err := deployed(margin, networks...)
	if err != nil {
		return 0, err
	}
	return r.judge.score(ctx, network)
}

// seen is the largest value of each input that every member has met, for what one has
// not met spoils the mean; nil if one's exploration has not ended, or if the policy places.
func (r *trainingRun) seen() []float32 {
	seen := slices.Clone(r.members[0].result.Seen)
	for _, m := range r.members[1:] {
		if len(m.result.Seen) == 0 {
			return nil
		}
		for i := range seen {
			seen[i] = min(seen[i], m.result.Seen[i])
		}
	}
	return seen
}

// deployed is what a policy acts by: the networks' mean, with the margin that
// what is advised has.
func deployed(margin float64, networks ...*nn.MLP) (*nn.MLP, error) {
	mean, err := nn.Mean(networks...)
	if err != nil || margin == 0 {
		return mean, err
	}
	return mean.Favouring(float32(margin))
}
