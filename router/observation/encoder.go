package observation

import (
	"fmt"
	"math"
	"sync"

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

// Encoder writes observations of one Spec. No call leaves a trace in it: goroutines may
// share it.
type Encoder struct {
	spec     Spec
	advisor  Advisor
	dim      int
	predicts bool
	plain    sync.Pool // of requests, for advice without a prediction

	table     *fleet.Table
	estimator Estimator // nil without [Estimates]
	estimates sync.Pool // of estimates, by replica
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
	e := &Encoder{spec: s, advisor: advisor, dim: s.Dim() + len(t.Replicas)*s.Own(), predicts: s.Predicts()}
	e.plain.New = func() any { return new(fleet.Request) }
	e.table = t
	e.estimates.New = func() any { list := make([]Estimate, len(t.Replicas)); return &list }
	return e, nil
}

// Match explains why the encoder cannot observe the fleet, or returns nil.
func (e *Encoder) Match(t *fleet.Table) error {
	err := e.spec.Match(t)
	if err == nil && e.advisor != nil {
		err = e.advisor.Match(t)
	}
	if err == nil && e.estimator != nil {
		err = e.estimator.Match(t)
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
	c := e.Candidates(v, r)
	for i := range v.Table.Replicas {
		c.Encode(rows[i*own:(i+1)*own], i)
	}
	c.Close()
}

// EncodeFeatures writes the part that the Features make, the Spec's Dim numbers.
func (e *Encoder) EncodeFeatures(dst []float32, v *fleet.View, r *fleet.Request) {
	w := writer{dst: dst}
	for i := range e.spec.Features {
		f := &e.spec.Features[i]
		switch f.Kind {
		case Advice:
			w.oneHot(len(e.spec.Variants), e.advise(v, r))
		case TaskID:
			w.put(float64(r.Task) / f.Scale[0])
		case TaskOneHot:
			w.oneHot(len(e.spec.Tasks), r.Task)
		case InFlight:
			w.inFlight(v, f.Scale, e.spec.Places())
		case TaskInFlight:
			w.taskInFlight(v, f.Scale, len(e.spec.Tasks), e.spec.Places())
		case LogInFlight:
			w.logInFlight(v, f.Scale)
		case Shortest:
			w.shortest(v, f.Scale)
		case KVUse:
			w.least(v, f.Scale, v.KVUse)
		case Pace:
			w.least(v, f.Scale, func(i int) float64 { return forecast(v, i).Pace })
		case Harm:
			w.least(v, f.Scale, func(i int) float64 { return forecast(v, i).Misses })
		case FirstToken:
			w.least(v, f.Scale, func(i int) float64 { return forecast(v, i).First })
		case Total:
			w.least(v, f.Scale, func(i int) float64 { return forecast(v, i).Total })
		case FirstTokenDeadline:
			w.put(v.Table.Tasks[r.Task].Deadlines(r).FirstToken.Seconds() / f.Scale[0])
		case TotalDeadline:
			w.put(v.Table.Tasks[r.Task].Deadlines(r).Total.Seconds() / f.Scale[0])
		case Rate:
			w.put(v.Rate / f.Scale[0])
		case LogRate:
			w.put(math.Log1p(v.Rate) / f.Scale[0])
		case SmoothedRate:
			w.rates(v, f.Scale)
		case LogSmoothedRate:
			w.logRates(v, f.Scale)
		case HostRate:
			w.hostRates(v, f.Scale)
		case LogHostRate:
			w.logHostRates(v, f.Scale)
		case States:
			w.states(v, len(e.spec.Variants))
		case ReadyIn:
			w.readyIn(v, f.Scale)
		case NewVersion:
			w.newVersions(v, len(e.spec.Variants))
		case HostBusy:
			w.least(v, f.Scale, func(i int) float64 { return v.BusyShare(v.Table.Replicas[i].Host) })
		case Shortfall:
			w.shortfalls(v, f)
		case PredictedQuality, PredictedSure:
			w.predicted(v, r, f)
		}
	}
}

// advise returns what the rule would choose: by the task's row, unless the observation shows
// what is predicted for the request.
func (e *Encoder) advise(v *fleet.View, r *fleet.Request) int {
	if !r.Predicted.Known || e.predicts {
		return e.advisor.Decide(v, r, nil)
	}
	plain := e.plain.Get().(*fleet.Request)
	*plain = *r
	plain.Predicted = fleet.Prediction{}
	advice := e.advisor.Decide(v, plain, nil)
	e.plain.Put(plain)
	return advice
}
