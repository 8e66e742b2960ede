package jobs

import (
	"time"

	"gearshift/router/modality"
	"gearshift/workloads"
)

// Episode is a worker with its jobs, in which a policy learns.
type Episode struct {
	Table *modality.Table // of the estimates
	// Options are what the batches really take.
	Options  []modality.Option
	Noise    func() float64 // as in [Config]
	Fixed    bool           // estimates are not corrected
	Arrivals []workloads.JobArrival
	// Cautions are those of the plan that is the advice.
	Cautions modality.Cautions
}

// Environment has a learner decide what a worker runs: one step is one decision about the
// job that the plan would run next, by an action of a [modality.Chooser].
//
// A decision earns the sum over the requests that end by it of their quality, if they are
// answered in time, and of −Penalty, if they are late or dropped. Jobs that the plan of the
// next decision drops count for the one before it. So an episode's rewards add up to what
// its requests are worth.
//
// It is not safe for concurrent use.
type Environment struct {
	// Draw makes the episode of a seed.
	Draw func(seed uint64) (Episode, error)
	// Limit truncates an episode after so many decisions; 0 does not.
	Limit int

	sim         *simulation
	chooser     *modality.Chooser
	plan        *modality.Plan
	planned     []modality.Job
	observation []float32
	worth       float64 // of what has ended since the last decision
	settled     float64 // of that, jobs whose ends are still to come
	decisions   int
	err         error
}

// Penalty is what a request that is late or dropped costs. Quality is at most 1 as a rule, so
// that no request is given up for the quality of another one.
const Penalty = 1

// Worth is what a job's end is worth: the quality of its requests, or −[Penalty] of each
// where it is late or dropped.
func (o *Outcome) Worth() float64 {
	if o.Dropped || o.Late() {
		return -Penalty * float64(o.Size)
	}
	return o.Quality * float64(o.Size)
}

// Step is what follows a decision.
type Step struct {
	// Observation asks for the next decision. Where the episode is over it is the last one.
	Observation []float32
	// Truncated: the episode ends here, although more jobs would come.
	Truncated bool
	Elapsed   time.Duration
	Decision  int     // that has been taken, from 0 on
	Worth     float64 // what it has earned
}

// Err is the first error of an episode; none that follows is of use.
func (e *Environment) Err() error { return e.err }

// Reset begins the episode of the seed and returns its first observation, valid until the
// next call.
func (e *Environment) Reset(seed uint64) []float32 {
	if e.observation == nil {
		e.observation = make([]float32, modality.Observed)
	}
	clear(e.observation)
	if e.err != nil {
		return e.observation
	}
	episode, err := e.Draw(seed)
	if err == nil {
		err = e.begin(&episode)
	}
	if err != nil {
		e.err = err
	}
	return e.observation
}

func (e *Environment) begin(episode *Episode) (err error) {
	e.decisions, e.worth, e.settled = 0, 0, 0
	e.chooser = modality.NewChooser(episode.Table, episode.Cautions)
	d := modality.NewDispatcher(episode.Table, e.chooser)
	d.Fixed = episode.Fixed
	c := Config{Dispatcher: d, Options: episode.Options, Noise: episode.Noise}
	if e.sim, err = newSimulation(c, episode.Arrivals, func(o Outcome) { e.worth += o.Worth() }); err != nil {
		return err
	}
	e.advance()
	return nil
}

// advance goes on to the next decision; false if there is none.
func (e *Environment) advance() bool {
	for e.sim.advance() {
		e.plan, e.planned = e.sim.Dispatcher.Plan(milliseconds(e.sim.now))
		if len(e.plan.Steps) > 0 {
			copy(e.observation, e.chooser.Observe(0, e.planned, e.plan))
			return true
		}
		e.sim.start(e.sim.Dispatcher.Commit()) // all are dropped
	}
	return false
}

// Step takes the decision that the last observation asks for.
func (e *Environment) Step(action int) Step {
	s := Step{Observation: e.observation, Decision: e.decisions, Truncated: true}
	if e.decisions++; e.err != nil {
		return s
	}
	began := e.sim.now
	e.chooser.Take(action, e.planned, e.plan)
	if action == modality.ActDrop {
		e.plan.Steps = e.plan.Steps[:0] // those that are left are planned again
	}
	e.sim.start(e.sim.Dispatcher.Commit())
	e.worth -= e.settled
	e.settled = 0
	more := e.advance()
	if more {
		e.settle()
	}
	s.Elapsed, s.Worth, e.worth = e.sim.now-began, e.worth, 0
	s.Truncated = !more || e.Limit > 0 && e.decisions >= e.Limit
	return s
}

// settle counts the jobs that the plan at hand drops, which no decision can keep any more;
// their ends, which come with the next step, count no more then.
func (e *Environment) settle() {
	for _, i := range e.plan.Dropped {
		e.settled -= Penalty * float64(e.planned[i].Size)
	}
	e.worth += e.settled
}
