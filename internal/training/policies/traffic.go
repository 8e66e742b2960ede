package policies

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/logged"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/experience"
	"gearshift/workloads"
	"gearshift/workloads/traces"
)

// Traffic holds recorded requests for training and judging a policy. The policy learns from the first part,
// the end of that part chooses its weights, and the last part is for the comparison with rules alone.
type Traffic struct {
	Meta checkpoints.Traffic

	train, validation, held workloads.Recorded
	bootstrap               workloads.Bootstrap
	heldBlocks              int
	heldName                string // of the workload of the last part
	tasks                   []fleet.Task
	shape                   workloads.Shape
	requests                int // of a block, at most
}

// How recorded requests are divided.
const (
	validationShare  = 0.25 // of the first part, its end
	validationBlocks = 8
	leastTrained     = 400 // requests of the first part, without those of validation
	leastHeldOut     = 500
	heldOutBlock     = 250 // requests of a held-out block, between the bounds of their number
	leastHeldBlocks  = 10
	mostHeldBlocks   = 20
)

// TraceTraffic reads a trace, as [workloads.Spec] names it after "trace:", and holds out the last share. Lengths sets whether the trace's token counts are used.
func TraceTraffic(s *scenario.Scenario, text string, lengths bool, share float64, notice func(string)) (*Traffic, error) {
	spec, err := workloads.Parse("trace:" + text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--trace %q: %w", text, err)
	case spec.Last != 0:
		return nil, fmt.Errorf("--trace %q: +last is set by --held-out; leave it out", text)
	case spec.Perturbation != workloads.Perturbation{}:
		return nil, fmt.Errorf("--trace %q: a policy is trained on the scenario's fleet as it is; want FILE[@RATE][+zero]", text)
	}
	spec.Lengths = lengths
	set := s.Settings(s.Evaluation.Requests)
	set.Notice = notice
	all, err := spec.Recorded(set)
	if err != nil {
		return nil, err
	}
	digest, err := traces.Digest(spec.File)
	if err != nil {
		return nil, err
	}
	t := &Traffic{Meta: checkpoints.Traffic{Name: spec.String(), SHA256: digest}}
	return t, t.divide(s, all, share, func(blocks int) string {
		spec.Last, spec.Blocks = share, blocks
		return spec.String()
	})
}

// LogTraffic returns the arrivals of logged requests, with their tasks, deadlines and lengths, as
// traffic of which the last share is held out.
func LogTraffic(s *scenario.Scenario, log *experience.Log, share float64) (*Traffic, error) {
	decisions := LoggedDecisions(log)
	summary := logged.Summarise(decisions, s.Table().Variants)
	if reason := NotReplayable(&summary); reason != "" {
		return nil, fmt.Errorf("cannot train on the log's arrivals: %s", reason)
	}
	stream := decisions.Endless(0, s.SmallestCache(), 0)
	all := make(workloads.Recorded, log.Len())
	for i := range all {
		all[i], _ = stream.Next() // endless
	}
	name := "log:" + filepath.Base(log.Files[0])
	if n := len(log.Files); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	t := &Traffic{Meta: checkpoints.Traffic{Name: name, SHA256: log.Hash}}
	return t, t.divide(s, all, share, func(blocks int) string {
		return name + " +last:" + strconv.FormatFloat(share, 'g', -1, 64) + "/" + strconv.Itoa(blocks)
	})
}

// divide makes the parts, of which each must be long enough.
func (t *Traffic) divide(s *scenario.Scenario, all workloads.Recorded, share float64, name func(blocks int) string) error {
	if !(share > 0 && share < 1) {
		return fmt.Errorf("--held-out %v is not a share; above 0 and below 1 would be right", share)
	}
	first, held := all.Split(share)
	cut := len(first) - int(validationShare*float64(len(first)))
	t.train, t.validation, t.held = first[:cut], first[cut:], held
	if len(t.train) < leastTrained || len(held) < leastHeldOut {
		enough := math.Ceil(max(leastTrained/((1-validationShare)*(1-share)), leastHeldOut/share))
		return fmt.Errorf("%s: %d requests are too few to train and judge on: %d to learn from, %d to validate on and %d held out; at least %.0f would be enough with --held-out %v",
			t.Meta.Name, len(all), len(t.train), len(t.validation), len(held), enough, share)
	}
	if t.train[len(t.train)-1].At == t.train[0].At {
		return fmt.Errorf("%s: the first %d requests all arrive at once; requests that are spread over minutes would be right", t.Meta.Name, len(t.train))
	}
	t.bootstrap = workloads.NewBootstrap(t.train)
	t.train = t.train.Rated()
	t.heldBlocks = min(mostHeldBlocks, max(leastHeldBlocks, len(held)/heldOutBlock))
	t.heldName = name(t.heldBlocks)
	set := s.Settings(s.Evaluation.Requests)
	t.tasks, t.shape, t.requests = set.Tasks, set.Shape, set.Requests
	t.Meta.Requests, t.Meta.Trained, t.Meta.Validated, t.Meta.HeldOut = len(all), len(t.train), len(t.validation), len(held)
	t.Meta.BlockS, t.Meta.HeldOutShare = math.Round(t.bootstrap.Block.Seconds()*10)/10, share
	return nil
}

// Open draws a stream of training: blocks of the first part.
func (t *Traffic) Open(seed uint64) (workloads.Stream, error) {
	return t.bootstrap.Open(t.train, t.tasks, t.shape, seed)
}

// HeldOut returns the last part as a workload, and how many blocks it has, another for each seed.
func (t *Traffic) HeldOut() (w evaluation.Workload, blocks int) {
	return t.blocks(t.held, t.heldName, t.heldBlocks), t.heldBlocks
}

// blocks returns the part as a workload of n blocks, another for each seed.
func (t *Traffic) blocks(part workloads.Recorded, name string, n int) evaluation.Workload {
	return evaluation.Workload{Name: name, Open: func(seed uint64) (workloads.Stream, error) {
		stream, err := part.Block(int(workloads.Number(seed)%uint64(n)), n).Open(t.tasks, t.shape, seed)
		if err != nil {
			return nil, err
		}
		return workloads.Take(stream, workloads.Limit{Requests: t.requests}), nil
	}}
}

// String describes the parts.
func (t *Traffic) String() string {
	m := &t.Meta
	return fmt.Sprintf("%s (sha256 %.12s): %d requests, of which %d to learn from in blocks of %s in the mean, %d to validate on, and the last %d held out",
		m.Name, m.SHA256, m.Requests, m.Trained, t.bootstrap.Block.Round(time.Second), m.Validated, m.HeldOut)
}

// EvalFlags returns the flags of gearshift eval that play what is held out; empty for no traffic, and for
// that of a log.
func (t *Traffic) EvalFlags() string {
	if t == nil || !strings.HasPrefix(t.heldName, "trace:") {
		return ""
	}
	return fmt.Sprintf(" --workload '%s' --seeds %d", t.heldName, t.heldBlocks)
}
