// Package jobs simulates a worker that answers jobs by a policy of package modality. The
// worker is an engine of package engine that runs batches to their end: time is virtual,
// and a run repeats exactly.
package jobs

import (
	"fmt"
	"math"
	"time"

	"gearshift/env/engine"
	"gearshift/router/modality"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// Config is what is simulated.
type Config struct {
	// Dispatcher decides what runs. Its table has the estimates.
	Dispatcher *modality.Dispatcher
	// Options are what the batches really take, by option of the table.
	Options []modality.Option
	// Noise, if set, is how many times as long a batch takes, drawn for each.
	Noise func() float64
	// Window is the time of a sample; 0 takes none.
	Window time.Duration
}

// Outcome is the end of a job.
type Outcome struct {
	workloads.JobArrival
	Finished time.Duration
	Quality  float64 // mean of its requests; 0 if it was dropped
	Batches  []int   // requests by option
	Dropped  bool
}

// Late reports whether the job was done after its deadline.
func (o *Outcome) Late() bool { return !o.Dropped && o.Finished > o.Deadline }

// Result is what a run comes to. Counts are of requests.
type Result struct {
	Requests, InTime, Late, Dropped int
	// Quality is the sum over the requests answered.
	Quality float64
	// QualityInTime is that over the requests answered in time.
	QualityInTime float64
	// BelowFloor is how many jobs answered have a mean quality below their floor.
	BelowFloor int
	// Length is from the first arrival to the last end.
	Length  time.Duration
	Samples []Sample
}

// Sample is what ended in a window.
type Sample struct{ Answered, InTime, Violations int }

// Violations is the share of requests that were late or dropped.
func (r *Result) Violations() float64 { return float64(r.Late+r.Dropped) / float64(max(1, r.Requests)) }

// Goodput is the requests answered in time per second.
func (r *Result) Goodput() float64 { return float64(r.InTime) / r.Length.Seconds() }

// Throughput is the requests answered per second, in time or not.
func (r *Result) Throughput() float64 { return float64(r.InTime+r.Late) / r.Length.Seconds() }

// MeanQuality is over the requests answered.
func (r *Result) MeanQuality() float64 { return r.Quality / float64(max(1, r.InTime+r.Late)) }

// simulation is a run.
type simulation struct {
	Config
	host      *engine.Host
	result    *Result
	observe   func(Outcome)
	now       time.Duration
	arrivals  []workloads.JobArrival // by index, which jobs have as IDs
	come      int                    // of them
	current   Outcome
	left      int           // requests of the current job that are not answered
	began     time.Duration // its present batch
	ids       map[string]int
	sequences []engine.Sequence
	events    []engine.Event
}

// Run plays the arrivals, which are in order. It calls observe, if set, with each job's
// end.
func Run(c Config, arrivals []workloads.JobArrival, observe func(Outcome)) (*Result, error) {
	s, err := newSimulation(c, arrivals, observe)
	if err != nil {
		return nil, err
	}
	for s.advance() {
		s.start(s.Dispatcher.Next(milliseconds(s.now)))
	}
	return s.result, nil
}

func newSimulation(c Config, arrivals []workloads.JobArrival, observe func(Outcome)) (*simulation, error) {
	if len(arrivals) == 0 {
		return nil, fmt.Errorf("cannot simulate: there are no jobs")
	}
	largest := 1
	for i := range c.Options {
		largest = max(largest, len(c.Options[i].Latency))
	}
	e, err := engine.NewBatching(engine.Config{MaxSequences: largest}, costs{c.Options, c.Noise})
	if err != nil {
		return nil, err
	}
	return &simulation{Config: c, host: engine.NewHost(e), result: &Result{}, observe: observe, arrivals: arrivals, ids: map[string]int{}}, nil
}

// advance lets time pass until the worker is free while jobs wait; false if that does not
// come any more.
func (s *simulation) advance() bool {
	for {
		at, busy := s.host.Next()
		if !busy && s.Dispatcher.Waiting() > 0 {
			return true
		}
		switch more := s.come < len(s.arrivals); {
		case busy && !(more && s.arrivals[s.come].At < at):
			s.step(at)
		case more:
			s.arrive()
		default:
			return false
		}
	}
}

// arrive lets the next job wait.
func (s *simulation) arrive() {
	a, id := &s.arrivals[s.come], fmt.Sprint(s.come)
	s.ids[id] = s.come
	s.now = a.At
	s.come++
	s.result.Requests += a.Size
	s.Dispatcher.Add(modality.Job{ID: id, Size: a.Size, MinQuality: a.Floor, Deadline: milliseconds(a.Deadline)}, milliseconds(a.At))
}

// start begins the job that is committed, if there is one, and ends those that are dropped.
func (s *simulation) start(next modality.Committed, dropped []modality.Job, ok bool) {
	for _, j := range dropped {
		s.end(Outcome{JobArrival: s.arrivals[s.ids[j.ID]], Finished: s.now, Dropped: true})
		delete(s.ids, j.ID)
	}
	if !ok {
		return
	}
	s.current = Outcome{JobArrival: s.arrivals[s.ids[next.Job.ID]], Quality: next.Quality, Batches: append([]int(nil), next.Batches...)}
	delete(s.ids, next.Job.ID)
	s.left, s.began, s.sequences = next.Job.Size, s.now, s.sequences[:0]
	for kind, n := range next.Batches {
		for range n {
			s.sequences = append(s.sequences, engine.Sequence{ID: uint64(len(s.sequences)), OutputTokens: 1, Kind: kind})
		}
	}
	s.host.SubmitAll(0, s.sequences, s.now)
}

// step ends a batch.
func (s *simulation) step(at time.Duration) {
	s.events = s.host.Step(s.events[:0])
	batch, kind := 0, 0
	for _, e := range s.events {
		if e.Kind == engine.Finished {
			batch++
			kind = s.sequences[e.ID].Kind
		}
	}
	s.Dispatcher.Ran(kind, batch, milliseconds(at-s.began))
	s.began, s.now = at, at
	if s.left -= batch; s.left == 0 {
		s.current.Finished = at
		s.end(s.current)
	}
}

// end counts a job.
func (s *simulation) end(o Outcome) {
	r := s.result
	r.Length = max(r.Length, o.Finished-s.arrivals[0].At)
	var in *Sample
	if s.Window > 0 {
		for at := int(o.Finished / s.Window); len(r.Samples) <= at; {
			r.Samples = append(r.Samples, Sample{})
		}
		in = &r.Samples[o.Finished/s.Window]
	} else {
		in = &Sample{}
	}
	switch {
	case o.Dropped:
		r.Dropped += o.Size
		in.Violations += o.Size
	case o.Late():
		r.Late += o.Size
		in.Violations += o.Size
		in.Answered += o.Size
	default:
		r.InTime += o.Size
		r.QualityInTime += o.Quality * float64(o.Size)
		in.InTime += o.Size
		in.Answered += o.Size
	}
	if !o.Dropped {
		r.Quality += o.Quality * float64(o.Size)
		if o.Quality < o.Floor-1e-9 {
			r.BelowFloor++
		}
	}
	if s.observe != nil {
		s.observe(o)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// costs is the cost model of the worker: a kind of input is an option.
type costs struct {
	options []modality.Option
	noise   func() float64
}

var _ profile.Batching = costs{}

// Most implements [profile.Batching].
func (c costs) Most(kind int) int { return len(c.options[kind].Latency) }

// Batch implements [profile.Batching]. The worker is alone on its host.
func (c costs) Batch(kind, n int, _ float64) (ms, gpu float64) {
	ms = c.options[kind].Latency[n-1]
	if c.noise != nil {
		ms *= math.Max(0, c.noise())
	}
	return ms, ms
}
