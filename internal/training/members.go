package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"gearshift/rl"
	"gearshift/rl/dqn"
	"gearshift/router/nn"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// member is one of a run's networks, whose mean is the policy. Each learns on its
// own, from a seed and on episodes of its own, at the same time as the others.
type member struct {
	number   int    // from 0
	run      string // the name that its progress is stored under
	seed     uint64
	envs     []*Environment
	from     *nn.MLP      // the weights to begin with; nil if they are drawn
	progress *rl.Progress // to go on from; nil if it begins
	result   rl.Result
}

// addMembers makes the members; the first is what a run of one network is.
func (r *run) addMembers() error {
	for i := range max(1, r.config.Members) {
		m := &member{number: i, run: r.options.Name, seed: r.options.Seed + uint64(i)<<32}
		if i > 0 {
			m.run = fmt.Sprintf("%s+%d", r.options.Name, i+1) // no policy's name has a +
		}
		for range max(1, r.config.Environments) {
			e, err := r.environment()
			if err != nil {
				return err
			}
			m.envs = append(m.envs, e)
		}
		r.members = append(r.members, m)
	}
	return nil
}

// environment makes an environment of training on the scenario's load, or on recorded traffic, of which
// policies do not see the true rate.
func (r *run) environment() (*Environment, error) {
	if r.traffic == nil {
		return NewEnvironment(r.scenario, r.meta.Spec, &r.config)
	}
	return newEnvironment(r.scenario, r.meta.Spec, &r.config, r.traffic.Open, 0)
}

// episodeSeed returns the seed of an episode in the run of a seed: of the training domain,
// another for each member. Run and episode fill what a domain's seeds have room for,
// so those of the further members are drawn; the first one's are a single network's.
func (m *member) episodeSeed(run, episode uint64) uint64 {
	n := run<<24 | episode&(1<<24-1)
	if m.number > 0 {
		n = rand.NewPCG(n, uint64(m.number)).Uint64()
	}
	return workloads.Seed(workloads.Training, n)
}

// IsRunOf reports whether progress of that name is a run's, or that of one of its members.
func IsRunOf(name, run string) bool {
	first, _, _ := strings.Cut(name, "+")
	return first == run
}

// train trains the members. Its error is the first that is more than an interruption:
// where one fails, the others are interrupted.
func (r *run) train(ctx context.Context, log *runLog) error {
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

func (r *run) trainMember(ctx context.Context, m *member, meta []byte, log *runLog) error {
	learner, rows, err := r.newLearner(m.seed)
	if err != nil {
		return err
	}
	if m.from != nil {
		if err := learner.StartFrom(m.from); err != nil {
			return fmt.Errorf("--from %q: %w", r.options.From, err)
		}
	}
	envs := make([]rl.Env, len(m.envs))
	for i, e := range m.envs {
		envs[i] = e
	}
	m.result, err = rl.Train(ctx, rl.Run{
		Config: r.config, Seed: m.seed, Stop: r.options.Steps,
		Envs: envs, Learner: learner, Rows: rows,
		EpisodeSeed: func(episode uint64) uint64 { return m.episodeSeed(r.options.Seed, episode) },
		Validate: func(network *nn.MLP) (float64, error) {
			deployed, err := r.deployed(r.config.AdviceMargin, network)
			if err != nil {
				return 0, err
			}
			return r.judge.Score(ctx, deployed, policy.Trust{})
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
func (r *run) newLearner(seed uint64) (learner, rl.Rows, error) {
	spec, rng := r.meta.Spec, rand.New(rl.Weights.PCG(seed))
	if !spec.Places() {
		l, err := dqn.New(r.config, spec.Dim(), len(spec.Variants), rng)
		return l, rl.Rows{}, err
	}
	rows := rl.Rows{Shared: spec.Dim(), Own: spec.Own(), Count: len(r.scenario.Table().Replicas), Taken: r.config.DifferenceRewards}
	if !rows.Taken {
		l, err := dqn.NewRows(r.config, rows, rng)
		return l, rows, err
	}
	l, err := dqn.New(r.config, rows.Inputs(), 1, rng)
	if short, loss := spec.PriorInputs(); err == nil && short >= 0 {
		err = l.StartFrom(l.Act().Clone().Carrying(short, loss))
	}
	return l, rows, err
}

// decisions returns how many every member has taken.
func (r *run) decisions() int {
	least := r.members[0].result.Decisions
	for _, m := range r.members[1:] {
		least = min(least, m.result.Decisions)
	}
	return least
}

// seen returns the largest value of each input that every member has met, for what one has
// not met spoils the mean; nil if one's exploration has not ended, or if the policy places.
func (r *run) seen() []float32 {
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

// deployed returns the network that a policy acts by, of the networks trained and with the
// margin that what is advised has.
func (r *run) deployed(margin float64, networks ...*nn.MLP) (*nn.MLP, error) {
	stack, err := nn.Stack(networks...)
	if err != nil || margin == 0 {
		return stack, err
	}
	return stack.Favouring(float32(margin), r.meta.Spec.Outputs())
}
