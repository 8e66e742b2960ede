package observation

import (
	"fmt"
	"math"

	"gearshift/router/fleet"
)

// The kinds of a Spec's candidates distinguish one replica from the others. [InFlight],
// [LogInFlight], [KVUse], [Pace], [Harm], [FirstToken] and [Total] are here those of the
// replica itself, and take one scale; so is [HostBusy] that of its host, and [NewVersion] 1 if
// its version is newer, without a scale, and [PredictedQuality] that of its variant.
const (
	// VariantOneHot is one number per variant, for the replica's; it takes no
	// scale.
	VariantOneHot Kind = "variant-one-hot"
	// Quality is what the task's answer is worth from the replica's variant,
	// quality × weight ÷ scale.
	Quality Kind = "quality"
	// Gain is how much more that is than from the next smaller variant ÷ scale; 0
	// for the smallest.
	Gain Kind = "gain"
	// Neighbours is the requests in flight on the same host, on smaller variants
	// and on larger ones ÷ a scale each.
	Neighbours Kind = "neighbours"
	// Estimates are the numbers of an [Estimate], in its order. They take no scale.
	Estimates Kind = "estimates"
)

// Estimate holds what is expected of a request on a replica that is available.
type Estimate struct {
	Short     float64 // by how much weight × quality × InTime is less than the task's peak
	Loss      float64 // utility that the requests on the host lose by it
	InTime    float64 // probability that it keeps its deadline
	TokenTime float64 // time per output token ÷ the deadline
	Wait      float64 // time to the first token ÷ what the deadline allows an answer of mean length
	Alone     float64 // TokenTime if the host were idle
	Duty      float64 // share of a step in which the replica loads its host's GPU
	Beside    float64 // that of the host's other replicas
	KVPeak    float64 // share of the KV cache that its batch will fill; 0 if its size is unknown
}

// PriorInputs returns which of a network's inputs are the Short and the Loss of a replica, −1 and −1
// without [Estimates].
func (s Spec) PriorInputs() (short, loss int) {
	at := s.Dim() + 1
	for _, f := range s.Candidate {
		if f.Kind == Estimates {
			return at, at + 1
		}
		at += s.candidateWidth(f.Kind)
	}
	return -1, -1
}

// estimateWidth counts the numbers of an [Estimate].
const estimateWidth = 9

// Estimator estimates how a request would fare on each available replica that the view is of, by replica. It
// is pure. Match explains why it cannot for t.
type Estimator interface {
	Estimate(dst []Estimate, v *fleet.View, r *fleet.Request)
	Match(t *fleet.Table) error
}

// EstimateRule refers to the rule that makes the [Estimates] of the observation; empty if it has none.
func (s Spec) EstimateRule() string {
	for _, f := range s.Candidate {
		if f.Kind == Estimates {
			return f.Rule
		}
	}
	return ""
}

// CandidateKinds lists all that a candidate's features may be.
var CandidateKinds = []Kind{VariantOneHot, Quality, Gain, PredictedQuality, InFlight, LogInFlight, KVUse, Pace, Harm, FirstToken, Total, NewVersion, HostBusy, Neighbours, Estimates}

// Places reports whether a policy with this Spec chooses a replica rather than a
// variant: it has candidates.
func (s Spec) Places() bool { return len(s.Candidate) > 0 }

// Own is how many numbers of an observation belong to one replica alone; 0
// without candidates. The first is 1 if the replica is available, else 0.
func (s Spec) Own() int {
	if !s.Places() {
		return 0
	}
	own := 1
	for _, f := range s.Candidate {
		own += s.candidateWidth(f.Kind)
	}
	return own
}

// Inputs is how many numbers a network sees at once: the whole observation or,
// with candidates, what belongs to all replicas followed by a replica's own.
func (s Spec) Inputs() int { return s.Dim() + s.Own() }

// Outputs is how many values a network gives: one per variant or, with
// candidates, that of the one replica.
func (s Spec) Outputs() int {
	if s.Places() {
		return 1
	}
	return len(s.Variants)
}

func (s Spec) candidateWidth(k Kind) int {
	switch k {
	case VariantOneHot:
		return len(s.Variants)
	case Neighbours:
		return 2
	case Estimates:
		return estimateWidth
	default:
		return 1
	}
}

func (s Spec) validateCandidate(f Feature) error {
	switch {
	case f.Kind == Estimates && f.Rule == "":
		return fmt.Errorf("%s needs a rule to estimate by, such as universal", f.Kind)
	case f.Kind != Estimates && f.Rule != "":
		return fmt.Errorf("%s takes no rule", f.Kind)
	}
	switch f.Kind {
	case VariantOneHot, NewVersion, Estimates:
		return checkScales(f, 0)
	case Quality, Gain, PredictedQuality, InFlight, LogInFlight, KVUse, Pace, Harm, FirstToken, Total, HostBusy, Neighbours:
		return checkScales(f, s.candidateWidth(f.Kind))
	default:
		return fmt.Errorf("unknown kind %q", f.Kind)
	}
}

// boundTo reports whether the meaning of an observation hangs on which tasks there
// are, and on which variants. Without candidates the actions do: both.
func (s Spec) boundTo() (tasks, variants bool) {
	if !s.Places() {
		return true, true
	}
	for _, f := range s.Features {
		switch f.Kind {
		case TaskID, TaskOneHot:
			tasks = true
		case TaskInFlight:
			tasks, variants = true, true
		case InFlight, LogInFlight, Shortest, KVUse, Pace, Harm, FirstToken, Total, States, ReadyIn, NewVersion, HostBusy, PredictedQuality:
			variants = true
		}
	}
	for _, f := range s.Candidate {
		variants = variants || f.Kind == VariantOneHot
	}
	return tasks, variants
}

// EstimateBy sets what makes the [Estimates] of the Spec.
func (e *Encoder) EstimateBy(by Estimator) error {
	e.estimator = by
	return by.Match(e.table)
}

// Candidates encode the replicas of a view for a request. They hold memory until they are closed.
type Candidates struct {
	encoder   *Encoder
	view      *fleet.View
	request   *fleet.Request
	estimates *[]Estimate // by replica
}

// Candidates begin to encode the replicas.
func (e *Encoder) Candidates(v *fleet.View, r *fleet.Request) Candidates {
	c := Candidates{encoder: e, view: v, request: r}
	if e.estimator != nil {
		c.estimates = e.estimates.Get().(*[]Estimate)
		clear(*c.estimates)
		e.estimator.Estimate(*c.estimates, v, r)
	}
	return c
}

// Close gives their memory back.
func (c *Candidates) Close() {
	if c.estimates != nil {
		c.encoder.estimates.Put(c.estimates)
	}
}

// Encode writes the replica's own numbers into dst, whose length is the
// Spec's Own. Every number lies in [0, Bound]. It allocates nothing.
func (c *Candidates) Encode(dst []float32, replica int) {
	e, v, r := c.encoder, c.view, c.request
	task, variant := &v.Table.Tasks[r.Task], v.Table.Replicas[replica].Variant
	w := writer{dst: dst}
	w.put(indicator(v.Available(replica)))
	for i := range e.spec.Candidate {
		f := &e.spec.Candidate[i]
		switch f.Kind {
		case VariantOneHot:
			w.oneHot(len(e.spec.Variants), variant)
		case Quality:
			w.put(task.Weight * task.Quality[variant] / f.Scale[0])
		case Gain:
			w.put(gain(task, variant) / f.Scale[0])
		case PredictedQuality:
			w.put(predictedWorth(v, r, variant) / f.Scale[0])
		case InFlight:
			w.put(float64(v.InFlight[replica]) / f.Scale[0])
		case LogInFlight:
			w.put(math.Log1p(float64(v.InFlight[replica])) / f.Scale[0])
		case KVUse:
			w.put(v.KVUse(replica) / f.Scale[0])
		case Pace:
			w.put(forecast(v, replica).Pace / f.Scale[0])
		case Harm:
			w.put(max(0, forecast(v, replica).Misses) / f.Scale[0])
		case FirstToken:
			w.put(forecast(v, replica).First / f.Scale[0])
		case Total:
			w.put(forecast(v, replica).Total / f.Scale[0])
		case NewVersion:
			w.put(indicator(v.IsNewer(replica)))
		case HostBusy:
			w.put(v.BusyShare(v.Table.Replicas[replica].Host) / f.Scale[0])
		case Neighbours:
			smaller, larger := neighbours(v, replica)
			w.put(float64(smaller) / f.Scale[0])
			w.put(float64(larger) / f.Scale[1])
		case Estimates:
			w.estimate(&(*c.estimates)[replica])
		}
	}
}

func (w *writer) estimate(x *Estimate) {
	for _, n := range [estimateWidth]float64{x.Short, x.Loss, x.InTime, x.TokenTime, x.Wait, x.Alone, x.Duty, x.Beside, x.KVPeak} {
		w.put(n)
	}
}

func gain(task *fleet.Task, variant int) float64 {
	if variant == 0 {
		return 0
	}
	return max(0, task.Weight*(task.Quality[variant]-task.Quality[variant-1]))
}

// forecast returns the replica's forecast, or unknown without a forecaster. It is read-only.
func forecast(v *fleet.View, replica int) *fleet.Forecast {
	if len(v.Forecasts) == 0 {
		return &unknown
	}
	return &v.Forecasts[replica]
}

// unknown is the forecast without a forecaster, beyond all bounds. It is read-only.
var unknown = fleet.Forecast{Pace: math.Inf(1), Misses: math.Inf(1), First: math.Inf(1), Total: math.Inf(1)}

// neighbours counts the requests in flight on the replica's host, on smaller
// variants than its own and on larger ones.
func neighbours(v *fleet.View, replica int) (smaller, larger int) {
	own := &v.Table.Replicas[replica]
	for _, i := range v.Table.ReplicasOn(own.Host) {
		switch other := v.Table.Replicas[i].Variant; {
		case other < own.Variant:
			smaller += int(v.InFlight[i])
		case other > own.Variant:
			larger += int(v.InFlight[i])
		}
	}
	return smaller, larger
}

// hostsUp counts the hosts with a replica that is up, at least one, or estimates
// them from those of the sample.
func hostsUp(v *fleet.View) float64 {
	up := 0
	for _, h := range v.Hosts() {
		for _, i := range v.Table.ReplicasOn(h) {
			if !v.Down[i] {
				up++
				break
			}
		}
	}
	return max(1, float64(up*v.PresentHosts())/float64(len(v.Hosts())))
}
