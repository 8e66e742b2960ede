package env

import (
	"time"

	"gearshift/workloads"
)

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

// end counts a job.
func (j *Jobs) end(o JobOutcome) {
	r := &j.result
	r.Length = max(r.Length, o.Finished-j.first)
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
