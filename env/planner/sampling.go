package planner

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// SamplingOptions are the settings of [Sampling].
type SamplingOptions struct {
	// Horizon is how much of the future has arrivals.
	Horizon time.Duration
	// Samples is how many futures each decision looks at, at most.
	Samples int
	// Least is how many it looks at before it rules an action out.
	Least int
	// Margin is by how many standard errors the mean advantage over the base's
	// choice must exceed zero for another to be taken.
	Margin float64
	// Shape is what requests look like; Rates is how they arrive, unless the
	// environment declares the true rate.
	Shape workloads.Shape
	Rates Rates
}

// DefaultSamplingOptions are those that did best for their cost; Shape and Rates
// are left to the caller.
func DefaultSamplingOptions() SamplingOptions {
	return SamplingOptions{Horizon: 10 * time.Second, Samples: 64, Least: 8, Margin: 3}
}

func (o *SamplingOptions) validate(tasks []fleet.Task) error {
	var faults []error
	if o.Horizon < 0 {
		faults = append(faults, fmt.Errorf("a horizon of %v; 0 or more is possible", o.Horizon))
	}
	if o.Samples < 1 {
		faults = append(faults, fmt.Errorf("%d samples; at least 1 is needed", o.Samples))
	}
	if o.Least < 2 {
		faults = append(faults, fmt.Errorf("a least number of %d samples; 2 have a standard error", o.Least))
	}
	if !(o.Margin >= 0) {
		faults = append(faults, fmt.Errorf("a margin of %v standard errors; 0 or more is possible", o.Margin))
	}
	return errors.Join(append(faults, o.Shape.Validate(tasks), o.Rates.validate())...)
}

// Sampling is what [Clairvoyant] is to a router that cannot see the future: it
// plans on sampled ones, the same for each action, and takes the action with the
// best mean. It learns nothing.
//
// What it knows is what a router with a simulator of its own fleet may know: the
// profiles; which requests it has sent where, and how far each has come; the
// state of the engines that follows from that; what requests look like ([Shape]
// of the options); and the arrivals so far, from which it infers the rate
// ([Rates]). What it does not know it draws anew for each future: the output
// lengths of the requests in flight, given the tokens that they have generated,
// and of the present one; the present rate, and its changes; all further
// arrivals.
type Sampling struct {
	real    *env.Environment
	base    Decider
	options SamplingOptions
	lengths []lengths // by task
	belief  *belief
	rng     *rand.Rand
	scratch []float32

	imagined env.Environment // the present, with other lengths
	tape     tape
	trunk    branch // the base's way into a future
	other    branch
	rivals   []rival
	sampled  int
}

// rival is an action that the base does not choose, with the running mean and
// sum of squared deviations of its advantage. It begins with one future of none,
// so that a few equal values do not pass for certainty.
type rival struct {
	action           int
	n, mean, squares float64
}

func (r *rival) add(advantage float64) {
	r.n++
	delta := advantage - r.mean
	r.mean += delta / r.n
	r.squares += delta * (advantage - r.mean)
}

// deviation is the standard error of the mean.
func (r *rival) deviation() float64 { return math.Sqrt(r.squares / (r.n - 1) / r.n) }

// samplingStream is the planner's own source under a seed.
const samplingStream = 0x706c616e6e6572

// NewSampling makes the decider for e, which has just been reset. The base must
// route for e's fleet. The seed is for the samples; it may be the episode's.
func NewSampling(e *env.Environment, seed uint64, base Decider, o SamplingOptions) (*Sampling, error) {
	if err := o.validate(e.Config().Table.Tasks); err != nil {
		return nil, fmt.Errorf("cannot plan on samples: %w", err)
	}
	rng := rand.New(rand.NewPCG(seed, samplingStream))
	return &Sampling{
		real: e, base: base, options: o,
		lengths: lengthsByTask(o.Shape, e.Config().Table.Tasks, rng), belief: newBelief(o.Rates), rng: rng,
		scratch: make([]float32, base.Scratch()),
	}, nil
}

// Scratch is zero: the planner has buffers of its own.
func (s *Sampling) Scratch() int { return 0 }

// Sampled is how many futures all decisions so far have looked at.
func (s *Sampling) Sampled() int { return s.sampled }

// Decide chooses for the present request of the environment that s was made
// for, whose view and request the arguments must be.
func (s *Sampling) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	s.belief.arrive(r.Arrival)
	own := s.base.Decide(v, r, s.scratch)
	s.rivals = s.rivals[:0]
	for action := range v.Table.Variants {
		if action != own && v.VariantAvailable(action) {
			s.rivals = append(s.rivals, rival{action: action, n: 1})
		}
	}
	for n := 1; n <= s.options.Samples && len(s.rivals) > 0; n++ {
		if err := s.imagine(v, r); err != nil {
			return own
		}
		s.compare(own)
		if n < s.options.Least {
			continue
		}
		s.ruleOut()
		if len(s.rivals) == 1 && s.ahead(&s.rivals[0]) {
			break
		}
	}
	return s.winner(own)
}

// imagine draws a future. It fails only for a shape that is not valid, which
// none is that got here.
func (s *Sampling) imagine(v *fleet.View, r *fleet.Request) error {
	s.sampled++
	s.imagined.CopyFrom(s.real, nil)
	s.imagined.Redraw(func(_, task, generated int) int { return s.lengths[task].above(generated, s.rng) })
	s.tape = tape{first: int(r.ID) + 1, arrivals: s.tape.arrivals[:0]}
	if s.options.Horizon == 0 {
		return nil // which would be no limit
	}
	process := ahead{belief: s.belief}
	if s.real.Config().KnownRate {
		process.known = v.Rate
	}
	stream, err := workloads.New(process, v.Table.Tasks, s.options.Shape, s.rng.Uint64(), workloads.Limit{Duration: s.options.Horizon})
	if err != nil {
		return err
	}
	for a, ok := stream.Next(); ok; a, ok = stream.Next() {
		a.At += r.Arrival
		s.tape.arrivals = append(s.tape.arrivals, a)
	}
	return nil
}

// compare adds one future's advantages. A rival that leads nowhere in it, or is
// compared with a base that does, is left as it is.
func (s *Sampling) compare(own int) {
	s.trunk.begin(&s.imagined, &s.tape, own)
	s.trunk.extend(s.base, s.scratch, math.MaxInt64, nil)
	base, ok := s.trunk.value(nil)
	if !ok {
		return
	}
	for i := range s.rivals {
		s.other.begin(&s.imagined, &s.tape, s.rivals[i].action)
		s.other.extend(s.base, s.scratch, math.MaxInt64, &s.trunk)
		if value, ok := s.other.value(&s.trunk); ok {
			s.rivals[i].add(value - base)
		}
	}
}

// hopeless is by how many standard errors an action is behind the base's choice
// when it is looked at no further. To drop a good one leaves things as they were,
// so this is less than a margin is.
const hopeless = 1

func (s *Sampling) ruleOut() {
	left := s.rivals[:0]
	for _, r := range s.rivals {
		if r.n > 1 && r.mean+hopeless*r.deviation() > tie {
			left = append(left, r)
		}
	}
	s.rivals = left
}

// ahead says whether the rival is far enough ahead of the base's choice.
func (s *Sampling) ahead(r *rival) bool {
	return r.n > 1 && r.mean > s.options.Margin*r.deviation()+tie
}

// winner is the rival that is furthest ahead, if any is far enough.
func (s *Sampling) winner(own int) int {
	choice, highest := own, 0.
	for i := range s.rivals {
		if r := &s.rivals[i]; r.mean > highest && s.ahead(r) {
			choice, highest = r.action, r.mean
		}
	}
	return choice
}
