package env

import (
	"errors"
	"math"
	"slices"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// Jobs are a source of work: jobs of several requests come at their times, with one floor for their mean
// quality and one deadline, and workers answer them in batches as a pool plans. Without a router they are
// all that happens ([NewJobs]); in an [Environment] they share the fleet with requests that are routed: a
// batch takes a place on its replica, and a worker takes jobs while the ledger has its replicas up.
type Jobs struct {
	// Pool plans. Its workers are those of Workers, in the same order.
	Pool    *modality.Pool
	Workers []JobsWorker
	// Arrivals are the jobs, in the order in which they come.
	Arrivals []workloads.JobArrival
	// Task is that of the table which their requests are of.
	Task int
	// Window is the time of a sample; 0 takes none.
	Window time.Duration
	// Ended is called with each job's end, if set.
	Ended func(JobOutcome)
	// Decide, if set, is called in place of [Jobs.Next] as soon as a worker is free while jobs wait for it.
	Decide func(worker int)

	sim    *Simulator
	ledger *fleet.Ledger // nil without a router
	come   int           // of the arrivals
	now    time.Duration
	runs   []jobRun // by worker
	result JobsResult
}

// JobsWorker answers one batch at a time.
type JobsWorker struct {
	// Replicas answer batches, by option of the worker's table, and Kinds are the kinds of their input as
	// their profiles number them.
	Replicas, Kinds []int
}

// JobOutcome is the end of a job.
type JobOutcome struct {
	workloads.JobArrival
	Finished time.Duration
	Quality  float64 // mean of its requests; 0 if it was dropped
	Batches  []int   // requests by option
	Dropped  bool
}

// Late reports whether the job was done after its deadline.
func (o *JobOutcome) Late() bool { return !o.Dropped && o.Finished > o.Deadline }

// JobPenalty is what a request that is late or dropped costs. Quality is at most 1 as a rule, so
// that no request is given up for the quality of another one.
const JobPenalty = 1

// Worth returns what a job's end is worth: the quality of its requests, or −[JobPenalty] of each
// where it is late or dropped.
func (o *JobOutcome) Worth() float64 {
	if o.Dropped || o.Late() {
		return -JobPenalty * float64(o.Size)
	}
	return o.Quality * float64(o.Size)
}

// JobsResult is what a run comes to. Counts are of requests.
type JobsResult struct {
	Requests, InTime, Late, Dropped int
	// Quality is the sum over the requests answered, and QualityInTime that over those answered in time.
	Quality, QualityInTime float64
	// BelowFloor is how many jobs answered have a mean quality below their floor.
	BelowFloor int
	// Length is from the first arrival to the last end.
	Length  time.Duration
	Samples []JobSample
}

// JobSample is what ended in a window.
type JobSample struct{ Answered, InTime, Violations int }

// Violations is the share of requests that were late or dropped.
func (r *JobsResult) Violations() float64 {
	return float64(r.Late+r.Dropped) / float64(max(1, r.Requests))
}

// Goodput is the requests answered in time per second.
func (r *JobsResult) Goodput() float64 { return float64(r.InTime) / r.Length.Seconds() }

// Throughput is the requests answered per second, in time or not.
func (r *JobsResult) Throughput() float64 { return float64(r.InTime+r.Late) / r.Length.Seconds() }

// MeanQuality is over the requests answered.
func (r *JobsResult) MeanQuality() float64 { return r.Quality / float64(max(1, r.InTime+r.Late)) }

// jobRun is a job that a worker runs.
type jobRun struct {
	commit *modality.Commit // nil while the worker is free
	option int              // of the present batch
	left   int              // its requests that have not ended
	broken bool             // it was lost with its replica
	began  time.Duration
	lease  fleet.Lease
}

// jobState is what is known of a job until its end.
type jobState struct {
	modality.Entry
	arrival *workloads.JobArrival
	batches []int
	earned  float64 // quality of the requests answered by a worker that has been lost since
	parts   bool    // there was one
}

// NewJobs makes jobs for one worker, alone in its world, whose batches take what the options say, and if
// noise is set, so many times as long, drawn for each.
func NewJobs(d *modality.Dispatcher, options []modality.Option, noise func() float64, arrivals []workloads.JobArrival) (*Jobs, error) {
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
	j := &Jobs{Pool: &modality.Pool{Workers: []*modality.Worker{modality.NewWorker(d)}}, Workers: []JobsWorker{w}, Arrivals: arrivals}
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

// attach makes jobs come to an idle simulator. A ledger, if there is one, counts their batches.
func (s *Simulator) attach(j *Jobs, l *fleet.Ledger) {
	s.source, j.sim, j.ledger, j.runs = j, s, l, make([]jobRun, len(j.Workers))
	if l != nil {
		j.Pool.Up = func(worker int) bool {
			return !slices.ContainsFunc(j.Workers[worker].Replicas, func(r int) bool { return l.State(r) != fleet.Up })
		}
	}
	if len(j.Arrivals) > 0 {
		s.agenda.Add(Item{At: j.Arrivals[0].At, Kind: jobArrives})
	}
}

// Run simulates until all jobs have ended, or [Jobs.Pause] is called, and returns what has come of them.
func (j *Jobs) Run() (*JobsResult, error) {
	j.sim.paused = false
	_, err := j.sim.Advance(idle-1, nil)
	return &j.result, err
}

// Result returns what has come of the jobs so far.
func (j *Jobs) Result() *JobsResult { return &j.result }

// Pause has the simulator stand still where it is.
func (j *Jobs) Pause() { j.sim.paused = true }

// Due reports whether the worker is free while jobs wait for it.
func (j *Jobs) Due(worker int) bool { return j.runs[worker].commit == nil && j.Pool.Waits() }

// Plan plans what waits for a worker, for [Jobs.Commit].
func (j *Jobs) Plan(worker int) (*modality.Plan, []modality.Job) {
	return j.Pool.Workers[worker].Plan(milliseconds(j.now))
}

// Now returns the time of what happened last.
func (j *Jobs) Now() time.Duration { return j.now }

// arrive has the next job wait.
func (j *Jobs) arrive(now time.Duration) {
	a := &j.Arrivals[j.come]
	if j.come++; j.come < len(j.Arrivals) {
		j.sim.agenda.Add(Item{At: j.Arrivals[j.come].At, Kind: jobArrives})
	}
	j.now = now
	j.result.Requests += a.Size
	x := &jobState{arrival: a}
	x.Job, x.Of = modality.Job{Size: a.Size, MinQuality: a.Floor, Deadline: milliseconds(a.Deadline)}, x
	if j.Pool.Add(&x.Entry, milliseconds(now)) != nil {
		j.drop(&x.Entry)
		return
	}
	j.wake()
}

// wake has workers that are free begin what waits.
func (j *Jobs) wake() {
	for moved := true; moved; {
		moved = false
		for i := range j.runs {
			if j.runs[i].commit != nil || !j.Pool.Waits() {
				continue
			}
			if j.Decide != nil {
				j.Decide(i)
				continue
			}
			moved = j.Next(i) || moved
		}
	}
}

// Next has a worker that is free begin a job, and reports whether the plan began or dropped any.
func (j *Jobs) Next(worker int) bool { return j.begin(worker, j.Pool.Next) }

// Commit is Next for a plan of the worker that has been made, and may have been changed.
func (j *Jobs) Commit(worker int) bool { return j.begin(worker, j.Pool.Commit) }

func (j *Jobs) begin(worker int, next func(worker int, now float64) (*modality.Commit, []*modality.Entry)) bool {
	c, dropped := next(worker, milliseconds(j.now))
	for _, x := range dropped {
		j.drop(x)
	}
	if c == nil {
		return len(dropped) > 0
	}
	j.runs[worker] = jobRun{commit: c, option: -1, began: j.now}
	j.batch(worker)
	return true
}

// batch begins the next batch of the worker's job. It reports false if there is none.
func (j *Jobs) batch(worker int) bool {
	r := &j.runs[worker]
	for r.option++; r.option < len(r.commit.Batches); r.option++ {
		if r.left = r.commit.Batches[r.option]; r.left > 0 {
			w := &j.Workers[worker]
			j.sim.beginBatch(w.Replicas[r.option], w.Kinds[r.option], r.left, jobSequence(worker), j.now)
			if j.ledger != nil {
				r.lease = j.lease(w.Replicas[r.option])
			}
			return true
		}
	}
	return false
}

// lease takes a place for a batch, which waits in the engine where all are taken.
func (j *Jobs) lease(replica int) fleet.Lease {
	lease, ok := j.ledger.Begin(replica, j.Task)
	for v := new(fleet.View); !ok; {
		if j.ledger.View(j.now, v); !v.Uncapped(replica) {
			break
		}
		lease, ok = j.ledger.BeginOver(v, fleet.Lease{}, replica, j.Task)
	}
	return lease
}

// follow follows a request of a batch that has ended, or is broken.
func (j *Jobs) follow(id uint64, at time.Duration, broken bool) {
	worker := int(id &^ ofJobs >> 32)
	r := &j.runs[worker]
	r.broken = r.broken || broken
	if r.left--; r.left > 0 {
		return
	}
	j.now = at
	r.lease.End()
	if !r.broken {
		j.Pool.Workers[worker].Ran(r.option, r.commit.Batches[r.option], milliseconds(at-r.began))
		if r.began = at; j.batch(worker) {
			return
		}
	}
	c := r.commit
	x, broke := c.Entry, *r
	*r = jobRun{}
	j.Pool.Ended(worker, milliseconds(at))
	if st := x.Of.(*jobState); broke.broken {
		j.lost(worker, st, &broke)
	} else {
		st.add(c.Batches)
		o := JobOutcome{JobArrival: *st.arrival, Finished: at, Quality: c.Quality, Batches: st.batches}
		if st.parts {
			o.Quality = (st.earned + c.Quality*float64(x.Size)) / float64(o.Size)
		}
		j.end(o)
	}
	j.wake()
}

// lost has what is left of a job wait for another worker, of which this one has answered some batches.
func (j *Jobs) lost(worker int, st *jobState, r *jobRun) {
	answered := append([]int(nil), r.commit.Batches...)
	clear(answered[r.option:])
	st.add(answered)
	st.parts = true
	x := r.commit.Entry
	for option, n := range answered {
		quality := j.Pool.Workers[worker].Table().Options()[option].Quality
		st.earned += quality * float64(n)
		x.Answered(n, quality)
	}
	if j.Pool.Elsewhere(x, milliseconds(j.now)) != nil {
		j.drop(x)
	}
}

func (st *jobState) add(batches []int) {
	if st.batches == nil { // the commit's own, which is over
		st.batches = batches
		return
	}
	for option, n := range batches {
		st.batches[option] += n
	}
}

// drop ends a job that is not answered.
func (j *Jobs) drop(x *modality.Entry) {
	j.end(JobOutcome{JobArrival: *x.Of.(*jobState).arrival, Finished: j.now, Dropped: true})
}

// end counts a job.
func (j *Jobs) end(o JobOutcome) {
	r := &j.result
	r.Length = max(r.Length, o.Finished-j.Arrivals[0].At)
	in := &JobSample{}
	if j.Window > 0 {
		for at := int(o.Finished / j.Window); len(r.Samples) <= at; {
			r.Samples = append(r.Samples, JobSample{})
		}
		in = &r.Samples[o.Finished/j.Window]
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
	if j.Ended != nil {
		j.Ended(o)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ofJobs marks the IDs of requests of jobs, apart from those of requests that are routed.
const ofJobs = 1 << 63

// jobSequence is the ID of the first request of a worker's batch.
func jobSequence(worker int) uint64 { return ofJobs | uint64(worker)<<32 }

// manyAtOnce is a [Law] that begins several requests at the same moment, so that a batch has all of them.
type manyAtOnce interface {
	SubmitAll(slot int, s []engine.Sequence, now time.Duration)
}

// beginBatch submits so many requests of a job to a replica.
func (s *Simulator) beginBatch(replica, kind, n int, first uint64, now time.Duration) {
	s.began += n
	down := s.unreachable(replica, now)
	p := s.locations[replica]
	breaks := now
	if down && lost(s.losses, p.host, now) {
		breaks += s.evidence.Connect
	}
	s.batch = s.batch[:0]
	for i := range n {
		if q := (engine.Sequence{ID: first + uint64(i), PromptTokens: 1, OutputTokens: 1, Kind: kind}); down {
			s.breakAt(q.ID, breaks)
		} else {
			s.batch = append(s.batch, q)
		}
	}
	if down {
		return
	}
	if law, ok := s.laws[p.host].(manyAtOnce); ok {
		law.SubmitAll(p.engine, s.batch, now)
	} else {
		for _, q := range s.batch {
			s.laws[p.host].Submit(p.engine, q, now)
		}
	}
	s.order.fix(p.host)
}

// endJob ends a request of a job.
func (s *Simulator) endJob(id uint64, at time.Duration, broken bool) {
	s.ended++
	s.source.follow(id, at, broken)
}
