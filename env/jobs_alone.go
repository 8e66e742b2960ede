package env

import (
	"errors"
	"math"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// NewJobs makes jobs for one worker, alone in its world, whose batches take what the options say, and if
// noise is set, so many times as long, drawn for each.
func NewJobs(worker *modality.Worker, options []modality.Option, noise func() float64, arrivals []workloads.JobArrival) (*Jobs, error) {
	if len(arrivals) == 0 {
		return nil, errors.New("cannot simulate: there are no jobs")
	}
	largest := 1
	w := JobsWorker{}
	for i := range options {
		largest = max(largest, len(options[i].Latency))
		w.Replicas, w.Kinds = append(w.Replicas, 0), append(w.Kinds, i)
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "jobs", Deadline: time.Second, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "model"}}, []fleet.Host{{Name: "worker"}}, []fleet.Replica{{Name: "model@worker"}})
	if err != nil {
		return nil, err
	}
	e, err := engine.NewBatching(engine.Config{MaxSequences: largest}, tabled{options, noise})
	if err != nil {
		return nil, err
	}
	s, err := NewSimulator(&Config{Table: table, Laws: func() []Law { return []Law{engine.NewHost(e)} }})
	if err != nil {
		return nil, err
	}
	j := &Jobs{Pool: &modality.Pool{Workers: []*modality.Worker{worker}}, Workers: []JobsWorker{w}, Arrivals: arrivals}
	s.attach(j, nil)
	return j, nil
}

// tabled is a cost model in which a kind of input is an option.
type tabled struct {
	options []modality.Option
	noise   func() float64
}

// Most implements [profile.Batching].
func (t tabled) Most(kind int) int { return len(t.options[kind].Latency) }

// Batch implements [profile.Batching]. The worker is alone on its host.
func (t tabled) Batch(kind, n int, _ float64) (ms, gpu float64) {
	ms = t.options[kind].Latency[n-1]
	if t.noise != nil {
		ms *= math.Max(0, t.noise())
	}
	return ms, ms
}
