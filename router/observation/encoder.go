package observation

import (
	"fmt"
	"math"

	"gearshift/router/fleet"
)

// Bound is the largest value that an observation holds: raw counters are
// unbounded, a network's inputs must not be.
const Bound = 10

// Advisor chooses a variant by a rule, or −1 if none is available. It is pure,
// and needs no scratch. Match explains why it cannot advise for t.
type Advisor interface {
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
	Match(t *fleet.Table) error
}

// Encoder writes observations of one Spec. It holds no state: goroutines may
// share it.
type Encoder struct {
	spec    Spec
	advisor Advisor
	dim     int
}

// NewEncoder checks the Spec against the fleet; see [Spec.Match]. The advisor is
// the rule that [Spec.Advice] refers to, and nil where it refers to none.
func NewEncoder(s Spec, t *fleet.Table, advisor Advisor) (*Encoder, error) {
	if err := s.Match(t); err != nil {
		return nil, err
	}
	if rule := s.Advice(); (rule != "") != (advisor != nil) {
		return nil, fmt.Errorf("the observation has the advice of rule %q, and its advisor is %v", rule, advisor)
	}
	return &Encoder{spec: s, advisor: advisor, dim: s.Dim() + len(t.Replicas)*s.Own()}, nil
}

// Match explains why the encoder cannot observe the fleet, or returns nil.
func (e *Encoder) Match(t *fleet.Table) error {
	err := e.spec.Match(t)
	if err == nil && e.advisor != nil {
		err = e.advisor.Match(t)
	}
	return err
}

// Spec is the encoder's Spec.
func (e *Encoder) Spec() Spec { return e.spec }

// Dim is the length of the observations of the fleet.
func (e *Encoder) Dim() int { return e.dim }

// Encode writes the observation of v and r into dst, whose length is Dim.
// Every number lies in [0, Bound]. It allocates nothing.
func (e *Encoder) Encode(dst []float32, v *fleet.View, r *fleet.Request) {
	e.EncodeFeatures(dst, v, r)
	if !e.spec.Places() {
		return
	}
	own := e.spec.Own()
	rows := dst[e.spec.Dim():]
	for i := range v.Table.Replicas {
		e.EncodeCandidate(rows[i*own:(i+1)*own], v, r, i)
	}
}

// EncodeFeatures writes the part that the Features make, the Spec's Dim numbers.
func (e *Encoder) EncodeFeatures(dst []float32, v *fleet.View, r *fleet.Request) {
	at := 0
	put := func(x float64) {
		dst[at] = float32(min(x, Bound))
		at++
	}
	for i := range e.spec.Features {
		f := &e.spec.Features[i]
		switch f.Kind {
		case Advice:
			advised := e.advisor.Decide(v, r, nil)
			for m := range e.spec.Variants {
				put(indicator(m == advised))
			}
		case TaskID:
			put(float64(r.Task) / f.Scale[0])
		case TaskOneHot:
			for t := range e.spec.Tasks {
				put(indicator(t == r.Task))
			}
		case InFlight:
			for m, scale := range f.Scale {
				replicas := max(1, len(v.Table.ReplicasOf(m))) // of the whole fleet, as the sum is
				put(float64(v.VariantInFlight(m)) / float64(replicas) / scale)
			}
		case TaskInFlight:
			for m, scale := range f.Scale {
				replicas := max(1, len(v.ReplicasOf(m))) // that are seen, as the sum is
				for t := range e.spec.Tasks {
					put(float64(v.TaskInFlight(m, t)) / float64(replicas) / scale)
				}
			}
		case LogInFlight:
			for m, scale := range f.Scale {
				put(math.Log1p(float64(v.VariantInFlight(m))) / scale)
			}
		case Shortest:
			for m, scale := range f.Scale {
				put(orBound(float64(v.Shortest(m))) / scale)
			}
		case KVUse:
			for m, scale := range f.Scale {
				put(orBound(least(v, m, v.KVUse)) / scale)
			}
		case Pace:
			for m, scale := range f.Scale {
				put(orBound(least(v, m, func(i int) float64 { return forecast(v, i).Pace })) / scale)
			}
		case Harm:
			for m, scale := range f.Scale {
				put(max(0, orBound(least(v, m, func(i int) float64 { return forecast(v, i).Misses }))) / scale)
			}
		case FirstToken:
			for m, scale := range f.Scale {
				put(orBound(least(v, m, func(i int) float64 { return forecast(v, i).First })) / scale)
			}
		case Total:
			for m, scale := range f.Scale {
				put(orBound(least(v, m, func(i int) float64 { return forecast(v, i).Total })) / scale)
			}
		case FirstTokenDeadline:
			put(v.Table.Tasks[r.Task].Deadlines(r).FirstToken.Seconds() / f.Scale[0])
		case TotalDeadline:
			put(v.Table.Tasks[r.Task].Deadlines(r).Total.Seconds() / f.Scale[0])
		case Rate:
			put(v.Rate / f.Scale[0])
		case LogRate:
			put(math.Log1p(v.Rate) / f.Scale[0])
		case SmoothedRate:
			for i, scale := range f.Scale {
				put(v.Smoothed[i] / scale)
			}
		case LogSmoothedRate:
			for i, scale := range f.Scale {
				put(math.Log1p(v.Smoothed[i]) / scale)
			}
		case HostRate:
			hosts := hostsUp(v)
			put(v.Rate / hosts / f.Scale[0])
			for i, scale := range f.Scale[1:] {
				put(v.Smoothed[i] / hosts / scale)
			}
		case LogHostRate:
			hosts := hostsUp(v)
			put(math.Log1p(v.Rate/hosts) / f.Scale[0])
			for i, scale := range f.Scale[1:] {
				put(math.Log1p(v.Smoothed[i]/hosts) / scale)
			}
		case Shortfall:
			for i, n := range f.Requests {
				put(v.Recent.Sum(n) / f.Scale[i])
			}
		}
	}
}

// least is the smallest value over the variant's available replicas, or −1.
func least(v *fleet.View, variant int, of func(replica int) float64) float64 {
	best := -1.0
	for _, i := range v.ReplicasOf(variant) {
		if v.Available(i) && (best < 0 || of(i) < best) {
			best = max(0, of(i))
		}
	}
	return best
}

// orBound makes what is unknown, because nothing is available, the largest
// encodable value.
func orBound(x float64) float64 {
	if x < 0 {
		return math.Inf(1)
	}
	return x
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
