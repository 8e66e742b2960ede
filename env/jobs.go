package env

import (
	"slices"
	"time"

	"gearshift/env/engine"
	"gearshift/router"
	"gearshift/router/control"
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
	// Answers has a bit for each option that answers requests of a task, by task. As served, requests of
	// tasks with one come as jobs of one request, planned in place of routed, and are outcomes without a
	// decision. Nil is none.
	Answers []uint64
	// Window is the time of a sample; 0 takes none.
	Window time.Duration
	// Ended is called with each job's end, if set.
	Ended func(JobOutcome)
	// Decide, if set, is called in place of [Jobs.Next] as soon as a worker is free while jobs wait for it.
	Decide func(worker int)

	sim    *Simulator
	ledger *fleet.Ledger // nil without a router
	come   int           // of the arrivals
	single []*jobState   // those of the stream that are still to come, in order
	out    []Outcome     // of such, that the steps have not reported yet
	first  time.Duration // when the first job has come
	now    time.Duration
	runs   []jobRun // by worker
	result JobsResult
}

// JobsWorker answers one batch at a time.
type JobsWorker struct {
	// Replicas answer batches, by option of the worker's table, and Kinds are the kinds of their input as
	// their profiles number them. Nil kinds are the first.
	Replicas, Kinds []int
}

// jobRun is a job that a worker runs.
type jobRun struct {
	commit  *modality.Commit // nil while the worker is free
	option  int              // of the present batch
	left    int              // its requests that have not ended
	broken  bool             // it was lost with its replica
	refused bool             // its replica did not take it
	began   time.Duration
	lease   fleet.Lease
}

// jobState is what is known of a job until its end.
type jobState struct {
	modality.Entry
	arrival *workloads.JobArrival
	batches []int
	earned  float64        // quality of the requests answered by a worker that has been lost since
	parts   bool           // there was one
	request *fleet.Request // of a job that is one of the stream's; its batch is on replica, and began at that time
	replica int
	began   time.Duration
}

// attach makes jobs come to an idle simulator. A ledger, if there is one, counts their batches.
func (s *Simulator) attach(j *Jobs, l *fleet.Ledger) {
	s.source, j.sim, j.ledger, j.runs = j, s, l, make([]jobRun, len(j.Workers))
	if l != nil {
		j.Pool.Up = func(worker int) bool {
			return !slices.ContainsFunc(j.Workers[worker].Replicas, func(r int) bool { return l.State(r) != fleet.Up })
		}
	}
	if j.Answers != nil {
		s.counters = append(s.counters, j)
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
	return j.Pool.Workers[worker].Plan(fleet.Milliseconds(j.now))
}

// Now returns the time of what happened last.
func (j *Jobs) Now() time.Duration { return j.now }

// takes reports whether requests of the task come as jobs.
func (j *Jobs) takes(task int) bool { return j != nil && j.Answers != nil && j.Answers[task] != 0 }

// divert has a request of the stream come as a job.
func (j *Jobs) divert(r fleet.Request) {
	total := j.sim.table.Tasks[r.Task].Deadlines(&r).Total
	if total == 0 {
		total = time.Second
	}
	x := &jobState{request: &r, arrival: &workloads.JobArrival{At: r.Arrival, Size: 1, Deadline: r.Arrival + total}}
	x.Allowed = j.Answers[r.Task]
	j.single = append(j.single, x)
	j.sim.agenda.Add(Item{At: r.Arrival, Kind: jobArrives, Index: 1})
}

// open reports whether more jobs come.
func (j *Jobs) open() bool { return j != nil && (j.come < len(j.Arrivals) || len(j.single) > 0) }

// cease has no more jobs come.
func (j *Jobs) cease() {
	if j != nil {
		j.come, j.single = len(j.Arrivals), nil
		j.sim.agenda.Change(func(x *Item) bool { return x.Kind != jobArrives })
	}
}

// flush appends to dst the outcomes of requests that came as jobs.
func (j *Jobs) flush(dst []Outcome) []Outcome {
	if j != nil {
		dst, j.out = append(dst, j.out...), j.out[:0]
	}
	return dst
}

// arrive has the next job wait, of the stream or of the arrivals.
func (j *Jobs) arrive(now time.Duration, ofStream bool) {
	j.now = now
	var x *jobState
	if ofStream {
		x, j.single = j.single[0], j.single[1:]
	} else {
		x = &jobState{arrival: &j.Arrivals[j.come]}
		if j.come++; j.come < len(j.Arrivals) {
			j.sim.agenda.Add(Item{At: j.Arrivals[j.come].At, Kind: jobArrives})
		}
	}
	a := x.arrival
	if j.result.Requests == 0 {
		j.first = now
	}
	j.result.Requests += a.Size
	x.Of, x.Size, x.MinQuality, x.Deadline = x, a.Size, a.Floor, fleet.Milliseconds(a.Deadline)
	if j.Pool.Add(&x.Entry, fleet.Milliseconds(now)) != nil {
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
	c, dropped := next(worker, fleet.Milliseconds(j.now))
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
			w, st := &j.Workers[worker], r.commit.Of.(*jobState)
			st.replica, st.began = w.Replicas[r.option], j.now
			kind := 0
			if w.Kinds != nil {
				kind = w.Kinds[r.option]
			}
			r.refused = j.sim.BeginBatch(st.replica, kind, r.left, jobSequence(worker), j.now)
			if j.ledger != nil {
				r.lease = j.lease(st)
			}
			return true
		}
	}
	return false
}

// lease takes a place for a batch.
func (j *Jobs) lease(st *jobState) fleet.Lease {
	task := j.Task
	if st.request != nil {
		task = st.request.Task
	}
	return placeOf(j.ledger, st.replica, task, j.now)
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
		j.Pool.Workers[worker].Ran(r.option, r.commit.Batches[r.option], fleet.Milliseconds(at-r.began))
		if r.began = at; j.batch(worker) {
			return
		}
	}
	c := r.commit
	if r.broken {
		kind := control.Broken
		if r.refused {
			kind = control.Refused
		}
		j.sim.observe(control.Event{At: at, Kind: kind, Replica: c.Of.(*jobState).replica, Began: r.began})
	}
	x, broke := c.Entry, *r
	*r = jobRun{}
	j.Pool.Ended(worker, fleet.Milliseconds(at))
	if st := x.Of.(*jobState); broke.broken {
		j.lost(worker, st, &broke)
	} else {
		st.add(c.Batches)
		o := JobOutcome{JobArrival: *st.arrival, Finished: at, Quality: c.Quality, Batches: st.batches}
		if st.parts {
			o.Quality = (st.earned + c.Quality*float64(x.Size)) / float64(o.Size)
		}
		j.end(o)
		j.report(st, false)
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
	if j.Pool.Elsewhere(x, fleet.Milliseconds(j.now)) != nil {
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
	st := x.Of.(*jobState)
	j.end(JobOutcome{JobArrival: *st.arrival, Finished: j.now, Dropped: true})
	j.report(st, true)
}

// report makes the outcome of a request of the stream that came as a job.
func (j *Jobs) report(st *jobState, dropped bool) {
	if st.request == nil {
		return
	}
	o := Outcome{Decision: -1, Request: *st.request, Variant: -1, Replica: -1, FirstToken: j.now, Finished: j.now, Waited: j.now - st.request.Arrival, Refused: router.RefusedLate}
	if !dropped {
		task := &j.sim.table.Tasks[o.Request.Task]
		o.Replica, o.Variant = st.replica, j.sim.table.Replicas[st.replica].Variant
		o.Refused, o.Waited = "", st.began-o.Request.Arrival
		o.Utility, o.Met = j.sim.utility(&o), o.Deadlines(task).Met(o.Took())
	}
	j.out = append(j.out, o)
}

// Counts implements [Counter].
func (j *Jobs) Counts() []Count {
	return []Count{{"jobs in time", j.result.InTime}, {"jobs late", j.result.Late}, {"jobs dropped", j.result.Dropped}}
}

// ofJobs marks the IDs of requests of jobs, apart from those of requests that are routed.
const ofJobs = 1 << 63

// jobSequence is the ID of the first request of a worker's batch.
func jobSequence(worker int) uint64 { return ofJobs | uint64(worker)<<32 }

// manyAtOnce is a [Law] that begins several requests at the same moment, so that a batch has all of them.
type manyAtOnce interface {
	SubmitAll(slot int, s []engine.Sequence, now time.Duration)
}

// BeginBatch is [Simulator.Begin] of so many requests that come at the same moment, so that a batch has all of
// them; their IDs grow from the first. It reports whether they are refused.
func (s *Simulator) BeginBatch(replica, kind, n int, first uint64, now time.Duration) (down bool) {
	if s.besides(first) {
		s.beside += n
	} else {
		s.began += n
	}
	down = s.unreachable(replica)
	p := s.locations[replica]
	breaks := now
	if down && s.down[p.host] > 0 {
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
		return true
	}
	if law, ok := s.laws[p.host].(manyAtOnce); ok {
		law.SubmitAll(p.engine, s.batch, now)
	} else {
		for _, q := range s.batch {
			s.laws[p.host].Submit(p.engine, q, now)
		}
	}
	s.order.fix(p.host)
	return false
}

// endJob ends a request of a job.
func (s *Simulator) endJob(id uint64, at time.Duration, broken bool) {
	s.ended++
	s.source.follow(id, at, broken)
}
