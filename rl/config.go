package rl

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config is one training preset of a scenario. Its zero value is not valid.
type Config struct {
	Decisions  int   `yaml:"decisions" json:"decisions"`     // the run's length
	Hidden     []int `yaml:"hidden" json:"hidden"`           // the widths of the hidden layers
	Batch      int   `yaml:"batch" json:"batch"`             // transitions per gradient step
	TrainEvery int   `yaml:"train_every" json:"train_every"` // decisions per gradient step

	LearningRate      float64 `yaml:"learning_rate" json:"learning_rate"`
	FinalLearningRate float64 `yaml:"final_learning_rate" json:"final_learning_rate"`
	FinalShare        float64 `yaml:"final_share" json:"final_share"` // of the run, at the final learning rate

	Discount Discount `yaml:"discount" json:"discount"`
	// The target network is copied from the online one every TargetSync gradient steps (as
	// in the paper, LBE-14), or moves towards it at each step by TargetRate of their
	// difference. Exactly one is set.
	TargetSync int     `yaml:"target_sync,omitempty" json:"target_sync,omitempty"`
	TargetRate float64 `yaml:"target_rate,omitempty" json:"target_rate,omitempty"`
	Epsilon    Epsilon `yaml:"epsilon" json:"epsilon"`
	// NStep is over how many decisions a return sums rewards before it counts
	// on the target network. 0 stands for 1, plain Q-learning.
	NStep int `yaml:"n_step,omitempty" json:"n_step,omitempty"`
	// NStepTime ends a return of several steps once it spans that many seconds.
	// It needs a time constant of discounting. 0: no such bound.
	NStepTime float64 `yaml:"n_step_s,omitempty" json:"n_step_s,omitempty"`

	Replay int `yaml:"replay" json:"replay"` // transitions kept
	Warmup int `yaml:"warmup" json:"warmup"` // decisions before the first gradient step
	// Priority draws transitions from replay by their TD errors. Nil: uniformly.
	Priority *Priority `yaml:"priority,omitempty" json:"priority,omitempty"`

	// Dueling splits the values into that of the observation and the advantages
	// of the actions (Wang et al. 2016, eq. 9), which share the hidden layers.
	Dueling bool `yaml:"dueling,omitempty" json:"dueling,omitempty"`

	// Members is how many networks are trained, each on its own in an environment of its
	// own; the policy acts by their mean. 0 stands for 1.
	Members int `yaml:"members,omitempty" json:"members,omitempty"`
	// Environments is how many a network learns from at a time. With several, each
	// takes a decision by the same weights, and the network learns from what was
	// stored before while all of them step. 0 stands for 1.
	Environments int `yaml:"environments,omitempty" json:"environments,omitempty"`
	// AdviceMargin is by how much more than the advised action another must be worth to be
	// chosen instead (compare SPIBB, Laroche et al. 2019). The observation then begins with
	// one number per action, 1 for the advised one and else 0. 0 stands for no advice.
	AdviceMargin float64 `yaml:"advice_margin,omitempty" json:"advice_margin,omitempty"`

	Huber    float64 `yaml:"huber" json:"huber"`         // where the loss turns from quadratic to linear
	ClipNorm float64 `yaml:"clip_norm" json:"clip_norm"` // bound on the gradient's global norm
	// CentreRewards subtracts from each utility the mean of its stratum; see
	// [Completion].
	CentreRewards bool `yaml:"centre_rewards" json:"centre_rewards"`
	// MarginalRewards makes the environment reward a decision by how much its request
	// changes what all requests earn, instead of that request's own utility. So the harm to
	// the requests before it counts too. The sum over all decisions is the same.
	MarginalRewards bool `yaml:"marginal_rewards,omitempty" json:"marginal_rewards,omitempty"`
	// DifferenceRewards makes the environment reward a decision by how much less all requests
	// would earn without its request, those that came until its end included, less the most
	// that it could earn itself. That is all that a decision is worth: nothing is bootstrapped.
	DifferenceRewards bool `yaml:"difference_rewards,omitempty" json:"difference_rewards,omitempty"`
	// WeightAverage is the decay, per gradient step, of the exponential average
	// of the online weights that is validated and returned. 0: the weights
	// themselves are.
	WeightAverage float64 `yaml:"weight_average" json:"weight_average"`

	Episode         int `yaml:"episode" json:"episode"`                   // decisions before the environment truncates
	ValidateEvery   int `yaml:"validate_every" json:"validate_every"`     // decisions
	CheckpointEvery int `yaml:"checkpoint_every" json:"checkpoint_every"` // decisions
}

// maxEnvironments is far more than there are cores: the more environments, the older are the
// weights that they act by. maxMembers is as many networks, which are trained concurrently.
const maxEnvironments, maxMembers = 256, 256

// Bounds of what a run allocates at its beginning, far above any useful value.
const (
	maxWidth  = 1 << 14
	maxBatch  = 1 << 20
	maxReplay = 100_000_000
)

// Discount sets how much a later reward is worth: by a factor per decision (as in the paper,
// LBE-14), or by elapsed time, exp(−Δt/τ), for a semi-Markov process, whose decisions are
// unevenly far apart. Exactly one is set.
type Discount struct {
	PerStep      float64 `yaml:"per_step" json:"per_step,omitempty"`
	TimeConstant float64 `yaml:"time_constant_s" json:"time_constant_s,omitempty"`
}

// Factor returns the discount across one decision that lasts for elapsed.
func (d Discount) Factor(elapsed time.Duration) float64 {
	if d.TimeConstant > 0 {
		return math.Exp(-elapsed.Seconds() / d.TimeConstant)
	}
	return d.PerStep
}

// leastDiscount returns the discount at which a return of several steps ends.
func (c *Config) leastDiscount() float64 {
	if c.NStepTime == 0 {
		return 0
	}
	return math.Exp(-c.NStepTime / c.Discount.TimeConstant)
}

// Epsilon is the probability of a random action: linear from Start to End over
// the first Share of the run, End from there on.
type Epsilon struct {
	Start float64 `yaml:"start" json:"start"`
	End   float64 `yaml:"end" json:"end"`
	Share float64 `yaml:"share" json:"share"`
}

// At returns the probability at a decision of a run of total decisions.
func (e Epsilon) At(decision, total int) float64 {
	length := e.Share * float64(total)
	if float64(decision) >= length {
		return e.End
	}
	return e.Start + (e.End-e.Start)*float64(decision)/length
}

// Advise adds the margin to the value of the action that the observation advises.
func (c *Config) Advise(values, observation []float32) {
	if c.AdviceMargin == 0 {
		return
	}
	margin := float32(c.AdviceMargin)
	for i := range values {
		values[i] += margin * observation[i]
	}
}

// Priority is prioritised experience replay (Schaul et al. 2016, the proportional
// variant): a transition is drawn with a probability proportional to the power
// Exponent of its absolute TD error when it was last drawn. What is drawn more
// often than others counts for less, by the weights of importance sampling to the
// power of Correction at the beginning of the run, rising linearly to 1, which
// makes up for it in full, at the end. Both are above 0 and at most 1.
type Priority struct {
	Exponent   float64 `yaml:"exponent" json:"exponent"`     // α
	Correction float64 `yaml:"correction" json:"correction"` // β at the beginning
}

// CorrectionAt returns the correction at a decision of a run of total decisions.
func (p *Priority) CorrectionAt(decision, total int) float64 {
	return p.Correction + (1-p.Correction)*float64(min(decision, total))/float64(total)
}

// LearningRateAt returns the learning rate at a decision of the run: LearningRate, and
// FinalLearningRate in the final share.
func (c *Config) LearningRateAt(decision int) float64 {
	if float64(decision) >= (1-c.FinalShare)*float64(c.Decisions) {
		return c.FinalLearningRate
	}
	return c.LearningRate
}

// Validate reports every fault of c at once, joined, each under its YAML key.
func (c *Config) Validate() error {
	var f faults
	f.atLeast("decisions", c.Decisions, 1)
	if len(c.Hidden) == 0 {
		f.add("hidden", "at least one layer is needed")
	}
	for i, h := range c.Hidden {
		f.within(fmt.Sprintf("hidden[%d]", i), h, 1, maxWidth)
	}
	f.within("batch", c.Batch, 1, maxBatch)
	f.atLeast("train_every", c.TrainEvery, 1)
	f.positive("learning_rate", c.LearningRate)
	f.positive("final_learning_rate", c.FinalLearningRate)
	f.share("final_share", c.FinalShare)
	c.validateReturns(&f)
	c.validateReplay(&f)
	f.within("members", c.Members, 0, maxMembers)
	if c.Environments < 0 || c.Environments > maxEnvironments {
		f.add("environments", "must be from 1 to %d, or 0 for 1, not %d", maxEnvironments, c.Environments)
	}
	if c.AdviceMargin != 0 {
		f.positive("advice_margin", c.AdviceMargin)
	}
	if c.Priority != nil {
		f.aboveZero("priority.exponent", c.Priority.Exponent)
		f.aboveZero("priority.correction", c.Priority.Correction)
	}
	f.positive("huber", c.Huber)
	f.positive("clip_norm", c.ClipNorm)
	if !(c.WeightAverage >= 0 && c.WeightAverage < 1) {
		f.add("weight_average", "must be from 0 to below 1, not %v", c.WeightAverage)
	}
	f.atLeast("episode", c.Episode, 1)
	f.atLeast("validate_every", c.ValidateEvery, 1)
	f.atLeast("checkpoint_every", c.CheckpointEvery, 1)
	return errors.Join(f...)
}

// validateReturns checks what the values that are learnt depend on.
func (c *Config) validateReturns(f *faults) {
	c.Discount.validate(f)
	if c.DifferenceRewards && c.MarginalRewards {
		f.add("difference_rewards", "are all that a decision is worth; want no marginal_rewards")
	}
	if c.DifferenceRewards && c.NStep > 1 {
		f.add("difference_rewards", "are all that a decision is worth; want no n_step")
	}
	f.atLeast("n_step", c.NStep, 0)
	if c.NStepTime != 0 {
		f.positive("n_step_s", c.NStepTime)
		if c.Discount.TimeConstant == 0 {
			f.add("n_step_s", "needs discount.time_constant_s")
		}
		if c.NStep < 2 {
			f.add("n_step_s", "bounds returns of several decisions; needs n_step of 2 or more")
		}
	}
	if (c.TargetSync != 0) == (c.TargetRate != 0) {
		f.add("target_sync", "exactly one of it and target_rate is needed")
	} else {
		f.atLeast("target_sync", c.TargetSync, 0)
	}
	f.share("target_rate", c.TargetRate)
	f.share("epsilon.start", c.Epsilon.Start)
	f.share("epsilon.end", c.Epsilon.End)
	f.share("epsilon.share", c.Epsilon.Share)
}

// validateReplay checks that the run fills a batch.
func (c *Config) validateReplay(f *faults) {
	f.within("replay", c.Replay, 1, maxReplay)
	if c.Batch > c.Replay && c.Replay > 0 {
		f.add("replay", "%d transitions cannot fill a batch of %d", c.Replay, c.Batch)
	} else if c.Batch > c.Decisions && c.Decisions > 0 {
		f.add("batch", "a run of %d decisions cannot fill one of %d: no gradient step is left", c.Decisions, c.Batch)
	}
	f.atLeast("warmup", c.Warmup, 0)
	if c.Warmup > c.Decisions && c.Decisions > 0 {
		f.add("warmup", "%d decisions leave no gradient step of a run of %d", c.Warmup, c.Decisions)
	}
}

func (d Discount) validate(f *faults) {
	switch {
	case (d.PerStep != 0) == (d.TimeConstant != 0):
		f.add("discount", "exactly one of per_step and time_constant_s is needed")
	case d.PerStep != 0:
		f.aboveZero("discount.per_step", d.PerStep)
	default:
		f.positive("discount.time_constant_s", d.TimeConstant)
	}
}

// faults gathers what is wrong, one error per key.
type faults []error

func (f *faults) add(key, format string, args ...any) {
	*f = append(*f, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (f *faults) atLeast(key string, v, least int) {
	if v < least {
		f.add(key, "must be at least %d, not %d", least, v)
	}
}

func (f *faults) within(key string, v, least, most int) {
	if f.atLeast(key, v, least); v > most {
		f.add(key, "must be at most %d, not %d", most, v)
	}
}

// The comparisons are written so that NaN fails them.
func (f *faults) positive(key string, v float64) {
	if !(v > 0 && v <= math.MaxFloat64) {
		f.add(key, "must be positive and finite, not %v", v)
	}
}

// aboveZero is share without 0.
func (f *faults) aboveZero(key string, v float64) {
	if !(v > 0 && v <= 1) {
		f.add(key, "must be above 0 and at most 1, not %v", v)
	}
}

func (f *faults) share(key string, v float64) {
	if !(v >= 0 && v <= 1) {
		f.add(key, "must be between 0 and 1, not %v", v)
	}
}
