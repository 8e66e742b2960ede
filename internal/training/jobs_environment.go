package training

import (
	"time"

	"gearshift/env"
	"gearshift/rl"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// jobsEpisode is a worker with its jobs, in which a policy learns.
type jobsEpisode struct {
	Table *modality.Table // of the estimates
	// Options are what the batches really take, and Noise so many times as long, as in [env.NewJobs].
	Options  []modality.Option
	Noise    func() float64
	Arrivals []workloads.JobArrival
	// Cautions are those of the plan that is the advice.
	Cautions modality.Cautions
}

// play has the policy decide throughout. Ended is called with each job's end.
func (e *jobsEpisode) play(p modality.Policy, ended func(env.JobOutcome)) (*env.JobsResult, error) {
	j, err := env.NewJobs(modality.NewWorker(e.Table, p), e.Options, e.Noise, e.Arrivals)
	if err != nil {
		return nil, err
	}
	j.Ended = ended
	return j.Run()
}

// jobsEnvironment has a learner decide what a worker runs: one step is one decision about the
// job that the plan would run next, by an action of a [modality.Chooser].
//
// A decision earns the sum over the requests that end by it of their quality, if they are
// answered in time, and of −[env.JobPenalty], if they are late or dropped. Jobs that the plan of the
// next decision drops count for the one before it. So an episode's rewards add up to what
// its requests are worth.
type jobsEnvironment struct {
	draw  func(seed uint64) (jobsEpisode, time.Duration, error) // and the time to a deadline
	limit int                                                   // of decisions, after which an episode is truncated; 0 is none

	jobs        *env.Jobs
	chooser     *modality.Chooser
	plan        *modality.Plan
	planned     []modality.Job
	observation []float32
	worth       float64 // of what has ended since the last decision
	settled     float64 // of that, jobs whose ends are still to come
	decisions   int
	err         error
	deadline    time.Duration // of the episode
	completed   [1]rl.Completion
	stratum     int // of the present decision
}

func newJobsEnvironment(w *jobsSettings, c modality.Cautions, limit int) *jobsEnvironment {
	return &jobsEnvironment{limit: limit, draw: func(seed uint64) (jobsEpisode, time.Duration, error) { return w.draw(seed, c) }}
}

// Err returns the first error of an episode; none that follows is of use.
func (e *jobsEnvironment) Err() error { return e.err }

// Reset implements [rl.Env].
func (e *jobsEnvironment) Reset(seed uint64) []float32 {
	if e.observation == nil {
		e.observation = make([]float32, modality.Observed)
	}
	clear(e.observation)
	if e.err == nil {
		e.err = e.begin(seed)
	}
	e.stratum = jobsStratum(e.observation)
	return e.observation
}

func (e *jobsEnvironment) begin(seed uint64) error {
	x, deadline, err := e.draw(seed)
	if err != nil {
		return err
	}
	e.deadline, e.decisions, e.worth, e.settled = deadline, 0, 0, 0
	e.chooser = modality.NewChooser(x.Table, x.Cautions)
	if e.jobs, err = env.NewJobs(modality.NewWorker(x.Table, e.chooser), x.Options, x.Noise, x.Arrivals); err != nil {
		return err
	}
	e.jobs.Ended = func(o env.JobOutcome) { e.worth += o.Worth() }
	e.jobs.Decide = func(int) { e.jobs.Pause() }
	e.advance()
	return e.err
}

// advance goes on to the next decision; false if there is none.
func (e *jobsEnvironment) advance() bool {
	for {
		if !e.jobs.Due(0) {
			if _, e.err = e.jobs.Run(); e.err != nil || !e.jobs.Due(0) {
				return false
			}
		}
		e.plan, e.planned = e.jobs.Plan(0)
		if len(e.plan.Steps) > 0 {
			copy(e.observation, e.chooser.Observe(0, e.planned, e.plan))
			return true
		}
		e.jobs.Commit(0) // all are dropped
	}
}

// Step implements [rl.Env]. Times are in deadlines, a deadline as a second.
func (e *jobsEnvironment) Step(action int) rl.Step {
	decision := e.decisions
	worth, elapsed, truncated := e.decide(action)
	e.completed[0] = rl.Completion{Decision: decision, Utility: worth / unit, Stratum: e.stratum}
	e.stratum = jobsStratum(e.observation)
	if e.deadline > 0 {
		elapsed = time.Duration(float64(elapsed) / float64(e.deadline) * float64(time.Second))
	} else {
		elapsed = time.Second
	}
	return rl.Step{Observation: e.observation, Truncated: truncated, Elapsed: elapsed, Completed: e.completed[:]}
}

// decide takes the decision that the last observation asks for, and returns what it has earned, and how
// long it is until the next one. Truncated says that the episode ends here, although more jobs would come.
func (e *jobsEnvironment) decide(action int) (worth float64, elapsed time.Duration, truncated bool) {
	if e.decisions++; e.err != nil {
		return 0, 0, true
	}
	began := e.jobs.Now()
	e.chooser.Take(action, e.planned, e.plan)
	if action == modality.ActDrop {
		e.plan.Steps = e.plan.Steps[:0] // those that are left are planned again
	}
	e.jobs.Commit(0)
	e.worth -= e.settled
	e.settled = 0
	more := e.advance()
	if more { // the plan at hand drops jobs that no decision can keep: their ends, which come with the next step, count now
		for _, i := range e.plan.Dropped {
			e.settled -= env.JobPenalty * float64(e.planned[i].Size)
		}
		e.worth += e.settled
	}
	worth, e.worth = e.worth, 0
	return worth, e.jobs.Now() - began, !more || e.limit > 0 && e.decisions >= e.limit
}

// jobsStratum is a band of the load, which actions have no influence on.
func jobsStratum(x []float32) int {
	return max(0, min(rl.Strata-1, int(8*x[modality.Actions])))
}
