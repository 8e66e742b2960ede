// Package observation is the one encoding of what a policy sees: a versioned,
// hashed Spec, and the Encoder that turns a View and a Request into numbers.
// The simulator and the live router use it both, so that a policy is served
// exactly what it was trained on.
package observation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gearshift/internal/faults"
	"gearshift/router/fleet"
)

// Kind names a group of numbers in an observation.
type Kind string

// The kinds. Scales divide the raw number, so that typical values lie near
// [0, 1]; the kinds that say "per variant" take one scale each.
const (
	// Advice is one number per variant: 1 for what a rule would choose, else 0. It
	// takes no scale, and comes before every other feature.
	Advice Kind = "advice"
	// TaskID is the task's index ÷ scale: one number (LBE-9).
	TaskID Kind = "task-id"
	// TaskOneHot is one number per task; it takes no scale.
	TaskOneHot Kind = "task-one-hot"
	// InFlight is, per variant, its requests in flight ÷ its replicas ÷ scale:
	// the paper's "batch size at each model" (LBE-9).
	InFlight Kind = "in-flight"
	// TaskInFlight is, per variant and task, the router's own requests in flight ÷ the
	// variant's replicas ÷ the variant's scale: what is there now will stay as long, and
	// mind being slowed as much, as its task has it.
	TaskInFlight Kind = "task-in-flight"
	// LogInFlight is, per variant, log(1 + its requests in flight) ÷ scale, which
	// distinguishes light loads.
	LogInFlight Kind = "log-in-flight"
	// Shortest is, per variant, the requests in flight on its emptiest
	// available replica ÷ scale: the batch that a request would join.
	Shortest Kind = "shortest"
	// KVUse is, per variant, how full the KV cache of its available replica with
	// the most room is ÷ scale.
	KVUse Kind = "kv-use"
	// Pace is, per variant, the quickest forecast pace of its available replicas,
	// as a multiple of the deadline ÷ scale.
	Pace Kind = "pace"
	// Harm is, per variant, the fewest misses that the request is forecast to
	// add on an available replica ÷ scale.
	Harm Kind = "harm"
	// FirstToken is, per variant, the shortest forecast time to the first token on its
	// available replicas, as a multiple of the deadline for it ÷ scale; 0 without one.
	FirstToken Kind = "first-token"
	// Total is the same of the time to the end of the answer.
	Total Kind = "total"
	// FirstTokenDeadline is the request's deadline to the first token in seconds ÷ scale, and
	// TotalDeadline that to the end; 0 where it has none.
	FirstTokenDeadline Kind = "first-token-deadline"
	TotalDeadline      Kind = "total-deadline"
	// Rate is the arrival rate per second ÷ scale (LBE-9).
	Rate Kind = "rate"
	// LogRate is log(1 + rate) ÷ scale, which distinguishes low rates.
	LogRate Kind = "log-rate"
	// SmoothedRate is each of the view's smoothed arrival rates ÷ its scale.
	SmoothedRate Kind = "smoothed-rate"
	// LogSmoothedRate is log(1 + smoothed rate) ÷ scale, for each.
	LogSmoothedRate Kind = "log-smoothed-rate"
	// HostRate is the arrival rate, then each of the smoothed ones, ÷ the hosts
	// that are up ÷ its scale: the same load for a fleet of any size.
	HostRate Kind = "host-rate"
	// LogHostRate is log(1 + rate ÷ hosts) ÷ scale, for each.
	LogHostRate Kind = "log-host-rate"
	// States is, per variant, the share of its replicas that are up, and the share that is on
	// its way up: being loaded or woken. It takes no scale.
	States Kind = "states"
	// ReadyIn is, per variant, the seconds until the first of its replicas that are on their way
	// up is expected there ÷ scale; 0 if that is overdue.
	ReadyIn Kind = "ready-in"
	// NewVersion is, per variant, the share of its replicas that are up which have a version of
	// their model that replaces another. It takes no scale.
	NewVersion Kind = "new-version"
	// HostBusy is, per variant, the share in use of the least busy host of its available replicas
	// ÷ scale.
	HostBusy Kind = "host-busy"
	// Shortfall is, for each number of Requests, what so many of the latest requests fell
	// short of their peaks by together ÷ its scale; what has not ended counts as in time.
	Shortfall Kind = "shortfall"
	// PredictedQuality is, per variant, what its answer in time is worth: weight × the quality
	// that is predicted for the request ÷ scale. Without a prediction it is the task's.
	PredictedQuality Kind = "predicted-quality"
	// PredictedSure says how far that prediction is based on the prompt, from 0 to 1; 0 without
	// one. It takes no scale.
	PredictedSure Kind = "predicted-sure"
)

// Kinds lists them all.
var Kinds = []Kind{Advice, TaskID, TaskOneHot, InFlight, TaskInFlight, LogInFlight, Shortest, KVUse, Pace, Harm, FirstToken, Total, FirstTokenDeadline, TotalDeadline, Rate, LogRate, SmoothedRate, LogSmoothedRate, HostRate, LogHostRate, States, ReadyIn, NewVersion, HostBusy, Shortfall, PredictedQuality, PredictedSure}

// Version is the version of the encoding's arithmetic. A change of it makes
// every stored policy refuse to load rather than misread its inputs.
const Version = 1

// Feature is one group of numbers and its scales.
type Feature struct {
	Kind  Kind      `json:"kind" yaml:"kind"`
	Scale []float64 `json:"scale,omitempty" yaml:"scale,omitempty,flow"`
	// Rule refers to the rule whose choice [Advice] encodes, or that makes [Estimates].
	Rule string `json:"rule,omitempty" yaml:"rule,omitempty"`
	// Requests are how many of the latest requests each number of [Shortfall] is of.
	Requests []int `json:"requests,omitempty" yaml:"requests,omitempty,flow"`
}

// Spec says what an observation holds and in which order, and for which tasks
// and variants. Action i of a policy with this Spec is Variants[i] or, if there are
// candidates, replica i of the fleet.
//
// With candidates an observation is what the Features make, then for each
// replica of the fleet its availability and what its Candidate features make. One
// network values the replicas one by one, each from the Features' numbers and its
// own, so that a policy is not tied to how many there are.
type Spec struct {
	Version  int       `json:"version"`
	Tasks    []string  `json:"tasks"`
	Variants []string  `json:"variants"`
	Features []Feature `json:"features"`
	// Candidate features distinguish the replicas, for policies that choose one;
	// see [CandidateKinds].
	Candidate []Feature `json:"candidate,omitempty"`
}

// NewSpec is the Spec of these features over a fleet's tasks and variants, with
// these candidates, if any.
func NewSpec(t *fleet.Table, features []Feature, candidate ...Feature) (Spec, error) {
	tasks, variants := names(t)
	s := Spec{Version: Version, Tasks: tasks, Variants: variants, Features: features, Candidate: candidate}
	return s, cmp.Or(s.validate(), s.seen(t))
}

func (s Spec) validate() error {
	var found faults.List
	found.If(s.Version != Version, "observation version %d is not the supported %d", s.Version, Version)
	found.If(len(s.Features) == 0, "an observation needs at least one feature")
	for i, f := range s.Features {
		err := s.validateFeature(f)
		found.If(err != nil, "feature %d: %w", i, err)
		found.If(i > 0 && f.Kind == Advice, "feature %d: advice comes before every other feature, and once", i)
	}
	found.If(s.Places() && s.Advice() != "", "advice is of variants, candidates are replicas: an observation has one or the other")
	for i, f := range s.Candidate {
		err := s.validateCandidate(f)
		found.If(err != nil, "candidate feature %d: %w", i, err)
	}
	return found.Err()
}

func (s Spec) validateFeature(f Feature) error {
	var want int
	switch {
	case f.Kind == Advice && f.Rule == "":
		return fmt.Errorf("%s needs a rule to tell the choice of, such as slackfit", f.Kind)
	case f.Kind != Advice && f.Rule != "":
		return fmt.Errorf("%s takes no rule", f.Kind)
	case f.Kind != Shortfall && len(f.Requests) != 0:
		return fmt.Errorf("%s takes no requests", f.Kind)
	}
	switch f.Kind {
	case TaskOneHot, Advice, States, NewVersion, PredictedSure:
	case TaskID, Rate, LogRate, FirstTokenDeadline, TotalDeadline:
		want = 1
	case InFlight, TaskInFlight, LogInFlight, Shortest, KVUse, Pace, Harm, FirstToken, Total, ReadyIn, HostBusy, PredictedQuality:
		want = len(s.Variants)
	case SmoothedRate, LogSmoothedRate:
		want = len(fleet.RateHorizons)
	case HostRate, LogHostRate:
		want = 1 + len(fleet.RateHorizons)
	case Shortfall:
		want = len(f.Requests)
		if want == 0 {
			return fmt.Errorf("%s needs requests, such as [4, 9, 19]: of how many of the latest each number is", f.Kind)
		}
		for _, n := range f.Requests {
			if n < 1 || n > fleet.RecentRequests {
				return fmt.Errorf("%s of %d requests; want 1 to %d", f.Kind, n, fleet.RecentRequests)
			}
		}
	default:
		return fmt.Errorf("unknown kind %q", f.Kind)
	}
	return checkScales(f, want)
}

func checkScales(f Feature, want int) error {
	if len(f.Scale) != want {
		return fmt.Errorf("%s takes %d scales, has %d", f.Kind, want, len(f.Scale))
	}
	for _, x := range f.Scale {
		if !(x > 0) || math.IsInf(x, 1) {
			return fmt.Errorf("%s has scale %v; scales are positive and finite", f.Kind, x)
		}
	}
	return nil
}

// Dim is the length of what the Features make: of the whole observation, if
// there are no candidates.
func (s Spec) Dim() int {
	var n int
	for _, f := range s.Features {
		n += s.width(f)
	}
	return n
}

func (s Spec) width(f Feature) int {
	switch f.Kind {
	case TaskOneHot:
		return len(s.Tasks)
	case TaskInFlight:
		return len(s.Variants) * len(s.Tasks)
	case Advice, InFlight, LogInFlight, Shortest, KVUse, Pace, Harm, FirstToken, Total, ReadyIn, NewVersion, HostBusy, PredictedQuality:
		return len(s.Variants)
	case States:
		return 2 * len(s.Variants)
	case SmoothedRate, LogSmoothedRate:
		return len(fleet.RateHorizons)
	case HostRate, LogHostRate:
		return 1 + len(fleet.RateHorizons)
	case Shortfall:
		return len(f.Requests)
	default:
		return 1
	}
}

// Advice refers to the rule whose choice the observation begins with; empty if
// it contains none.
func (s Spec) Advice() string {
	if len(s.Features) == 0 {
		return ""
	}
	return s.Features[0].Rule
}

// Predicts reports whether the observation shows what is predicted for the request. A policy
// that does not see it decides by the task's row, and so does the rule that advises it.
func (s Spec) Predicts() bool {
	predicts := func(f Feature) bool { return f.Kind == PredictedQuality || f.Kind == PredictedSure }
	return slices.ContainsFunc(s.Features, predicts) || slices.ContainsFunc(s.Candidate, predicts)
}

// Hash identifies the Spec: equal hashes mean equal inputs and actions.
func (s Spec) Hash() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and finite numbers always marshal; validate keeps others out
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Match explains why a policy with Spec s cannot route for the fleet, or
// returns nil if it can. The fleet needs the Spec's tasks and variants, in their
// order; with candidates only the tasks if a feature is of them ([TaskID],
// [TaskOneHot]), and only the variants if one has a number or scale for each. Its
// hosts and replicas are its own.
func (s Spec) Match(t *fleet.Table) error {
	tasks, variants := names(t)
	byTask, byVariant := s.boundTo()
	switch {
	case s.Version != Version:
		return fmt.Errorf("the policy was trained for observation version %d, this router encodes version %d", s.Version, Version)
	case byVariant && !slices.Equal(s.Variants, variants):
		return fmt.Errorf("the policy was trained for variants %v, the scenario has %v", s.Variants, variants)
	case byTask && !slices.Equal(s.Tasks, tasks):
		return fmt.Errorf("the policy was trained for tasks %v, the scenario has %v", s.Tasks, tasks)
	}
	return cmp.Or(s.validate(), s.seen(t))
}

// seen explains which feature reads what views of the fleet do not have, or returns nil.
func (s Spec) seen(t *fleet.Table) error {
	for _, f := range slices.Concat(s.Features, s.Candidate) {
		switch f.Kind {
		case HostBusy:
			if !t.Measured {
				return fmt.Errorf("%s: nothing measures how busy hosts are; want it in training.observation of the scenario that is simulated or served, or that a log is of", f.Kind)
			}
		case States, ReadyIn, NewVersion:
			if t.Bare {
				return fmt.Errorf("%s: the log does not have the states and versions of replicas; want one that this version of gearshift has written", f.Kind)
			}
		}
		for _, v := range t.Variants {
			if i := v.Model; f.Kind == ReadyIn && i >= 0 && i < len(t.Models) && t.Models[i].Load == 0 {
				return fmt.Errorf("%s: model %q does not say how long a load takes; want its load_ms", f.Kind, t.Models[i].Name)
			}
		}
	}
	return nil
}

// names lists a fleet's tasks and variants by index.
func names(t *fleet.Table) (tasks, variants []string) {
	for _, task := range t.Tasks {
		tasks = append(tasks, task.Name)
	}
	for _, v := range t.Variants {
		variants = append(variants, v.Name)
	}
	return tasks, variants
}
