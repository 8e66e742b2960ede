package policy

import (
	"fmt"
	"strconv"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// DefaultFactor is the share of the deadline that [SlackFit] fills.
const DefaultFactor = 0.93

// Lengths is what SlackFit expects of a request whose output length it cannot
// know. In tokens.
type Lengths struct {
	// Context is the mean number of cached tokens of a running sequence.
	Context float64
	// Output is the mean output length, over which the prefills of the other
	// sequences of the batch are spread. Zero leaves prefills out.
	Output float64
}

// SlackFit chooses the largest variant whose predicted latency per output
// token is within a factor of the request's deadline, and the smallest
// available one if none is.
//
// The prediction is for the variant's emptiest available replica, joined by
// the request, at batch n:
//
//	step(n, n·Context, neighbours) + n·prefill(prompt)/Output
//
// Neighbours is the duty of the host's other busy replicas at their own
// batches, each as if alone. The second term is the prefills that interrupt a
// decode: in steady state each of the n sequences makes room for another once
// in the Output steps that the request takes. Of equally empty replicas the
// slowest counts, for the balancer may take any.
//
// The prediction takes all requests in flight for running ones. A replica
// whose KV cache is full lets the rest wait, which a profile cannot tell: under
// a long overload the rule keeps to a variant whose queue grows.
type SlackFit struct {
	factor   float64
	profiles []*profile.Profile
	lengths  Lengths
	name     string
}

// NewSlackFit makes the rule. Profiles are by replica index of t; the factor
// is mostly [DefaultFactor].
func NewSlackFit(t *fleet.Table, profiles []*profile.Profile, lengths Lengths, factor float64) (*SlackFit, error) {
	p := &SlackFit{
		factor: factor, profiles: profiles, lengths: lengths,
		name: "slackfit:" + strconv.FormatFloat(factor, 'g', -1, 64),
	}
	if !(factor > 0 && factor <= maxFactor) {
		return nil, fmt.Errorf("the factor of a slack-fit policy is in (0, %[2]d], not %[1]v", factor, maxFactor)
	}
	if !(lengths.Context >= 0 && lengths.Output >= 0) {
		return nil, fmt.Errorf("a slack-fit policy needs lengths that are not negative, has %+v", lengths)
	}
	if err := p.Match(t); err != nil {
		return nil, err
	}
	for i, q := range profiles {
		if q == nil {
			return nil, fmt.Errorf("a slack-fit policy needs a profile of replica %q", t.Replicas[i].Name)
		}
	}
	return p, nil
}

// maxFactor keeps a mistyped percentage out.
const maxFactor = 10

// Name is "slackfit:FACTOR".
func (p *SlackFit) Name() string { return p.name }

// Scratch is zero.
func (p *SlackFit) Scratch() int { return 0 }

// Match checks the number of replicas.
func (p *SlackFit) Match(t *fleet.Table) error {
	if len(p.profiles) != len(t.Replicas) {
		return fmt.Errorf("a slack-fit policy with %d profiles does not fit %d replicas", len(p.profiles), len(t.Replicas))
	}
	return nil
}

// Decide implements router.Policy.
func (p *SlackFit) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	limit := p.factor * float64(v.Table.Tasks[r.Task].Allowed(r.Deadline)) / float64(time.Millisecond)
	smallest := -1
	for m := len(v.Table.Variants) - 1; m >= 0; m-- {
		shortest := v.Shortest(m)
		if shortest < 0 {
			continue
		}
		if p.latency(v, r, m, shortest) <= limit {
			return m
		}
		smallest = m
	}
	return smallest
}

// latency is the slowest prediction, in milliseconds per output token, over
// the variant's available replicas with the fewest requests in flight.
func (p *SlackFit) latency(v *fleet.View, r *fleet.Request, variant, shortest int) float64 {
	var slowest float64
	for _, i := range v.Table.ReplicasOf(variant) {
		if v.Available(i) && int(v.InFlight[i]) == shortest {
			slowest = max(slowest, p.predict(v, r, i))
		}
	}
	return slowest
}

func (p *SlackFit) predict(v *fleet.View, r *fleet.Request, replica int) float64 {
	var neighbours float64
	for _, i := range v.Table.ReplicasOn(v.Table.Replicas[replica].Host) {
		if n := int(v.InFlight[i]); i != replica && n > 0 {
			_, duty := p.profiles[i].Step(n, n, p.context(n), 0)
			neighbours += duty
		}
	}
	n := int(v.InFlight[replica]) + 1
	ms, _ := p.profiles[replica].Step(n, n, p.context(n), neighbours)
	if p.lengths.Output > 0 {
		prefill, _ := p.profiles[replica].Step(max(1, r.PromptTokens), 1, 0, neighbours)
		ms += float64(n) * prefill / p.lengths.Output
	}
	return ms
}

func (p *SlackFit) context(sequences int) int { return int(float64(sequences) * p.lengths.Context) }
