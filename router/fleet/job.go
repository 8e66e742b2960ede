package fleet

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Job is several requests that are judged together: by the mean quality of their answers,
// and by when the last of them is there.
type Job struct {
	// Requests is how many it has.
	Requests int
	// Floor is the least mean quality of the answers, on the scale of [Task.Quality]. Zero is none.
	Floor float64
	// Deadline is from the job's arrival to its last answer. Zero is none.
	Deadline time.Duration
}

// Validate names every fault.
func (j Job) Validate() error {
	var faults []error
	if j.Requests < 1 {
		faults = append(faults, fmt.Errorf("a job of %d requests; it has at least 1", j.Requests))
	}
	if !(j.Floor >= 0) || math.IsInf(j.Floor, 0) {
		faults = append(faults, fmt.Errorf("a floor of %v; a mean quality is a number from 0 on", j.Floor))
	}
	if j.Deadline < 0 {
		faults = append(faults, fmt.Errorf("a deadline of %v; it is above 0, or 0 for none", j.Deadline))
	}
	return errors.Join(faults...)
}

// Answer is what became of a request of a job.
type Answer struct {
	// Quality is that of the variant that answered.
	Quality float64
	// Finished is when the answer was there, since the job's arrival.
	Finished time.Duration
	// Lost is whether there is none: the request was refused, given up, or broke.
	Lost bool
}

// JobProgress is a job with the answers so far. The zero value has none.
type JobProgress struct {
	answered, lost, inTime int
	quality                float64 // sum
	last                   time.Duration
}

// Add takes in the end of a request of the job.
func (p *JobProgress) Add(j *Job, a Answer) {
	if a.Lost {
		p.lost++
		return
	}
	p.answered++
	p.quality += a.Quality
	p.last = max(p.last, a.Finished)
	if met(a.Finished, j.Deadline) {
		p.inTime++
	}
}

// Ended reports whether all of the job's requests have ended.
func (p *JobProgress) Ended(j *Job) bool { return p.answered+p.lost >= j.Requests }

// JobOutcome is the end of a job.
type JobOutcome struct {
	// Kept is whether all of it was answered, in time, and with the mean quality asked for.
	Kept bool
	// Late is whether an answer came after the deadline. One that never came is not late,
	// but lost.
	Late bool
	// BelowFloor is whether the answers' mean quality is below the floor. Of a job without
	// an answer it is not known, and false.
	BelowFloor bool
	// Quality is the mean over its answers; zero where there is none.
	Quality float64
	// Finished is when the last answer was there, since the job's arrival.
	Finished time.Duration
	// Answered and Lost are the numbers of its requests with and without an answer, and
	// InTime those of the former whose answer came before the deadline.
	Answered, Lost, InTime int
}

// floorGrain is by how much a mean may lie below the floor for being rounded.
const floorGrain = 1e-9

// Outcome is that of a job of which all requests have ended.
func (p *JobProgress) Outcome(j *Job) (JobOutcome, error) {
	if n := p.answered + p.lost; n != j.Requests {
		return JobOutcome{}, fmt.Errorf("%d of a job's %d requests have ended; its outcome is that of all", n, j.Requests)
	}
	o := JobOutcome{Finished: p.last, Answered: p.answered, Lost: p.lost, InTime: p.inTime, Late: p.inTime < p.answered}
	if p.answered > 0 {
		o.Quality = p.quality / float64(p.answered)
		o.BelowFloor = o.Quality < j.Floor-floorGrain
	}
	o.Kept = o.Lost == 0 && !o.Late && !o.BelowFloor
	return o, nil
}

// Outcome is that of the job by the ends of all its requests, in any order.
func (j *Job) Outcome(answers []Answer) (JobOutcome, error) {
	var p JobProgress
	for _, a := range answers {
		p.Add(j, a)
	}
	return p.Outcome(j)
}
