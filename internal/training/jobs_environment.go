package training

import (
	"time"

	"gearshift/env/jobs"
	"gearshift/rl"
	"gearshift/router/modality"
)

// jobsEnvironment is the simulated worker as the training loop sees it.
type jobsEnvironment struct {
	jobs.Environment
	deadline  time.Duration // of the episode
	completed [1]rl.Completion
	stratum   int // of the present decision
}

func newJobsEnvironment(w *jobsSettings, c modality.Cautions, limit int) *jobsEnvironment {
	e := &jobsEnvironment{}
	e.Limit = limit
	e.Draw = func(seed uint64) (jobs.Episode, error) {
		made, deadline, err := w.draw(seed, c)
		e.deadline = deadline
		return made, err
	}
	return e
}

// Reset implements [rl.Env].
func (e *jobsEnvironment) Reset(seed uint64) []float32 {
	x := e.Environment.Reset(seed)
	e.stratum = jobsStratum(x)
	return x
}

// Step implements [rl.Env]. Times are in deadlines, a deadline as a second.
func (e *jobsEnvironment) Step(action int) rl.Step {
	s := e.Environment.Step(action)
	e.completed[0] = rl.Completion{Decision: s.Decision, Utility: s.Worth / unit, Stratum: e.stratum}
	e.stratum = jobsStratum(s.Observation)
	elapsed := time.Second
	if e.deadline > 0 {
		elapsed = time.Duration(float64(s.Elapsed) / float64(e.deadline) * float64(time.Second))
	}
	return rl.Step{Observation: s.Observation, Truncated: s.Truncated, Elapsed: elapsed, Completed: e.completed[:]}
}

// jobsStratum is a band of the load, which actions have no influence on.
func jobsStratum(x []float32) int {
	return max(0, min(rl.Strata-1, int(8*x[modality.Actions])))
}
