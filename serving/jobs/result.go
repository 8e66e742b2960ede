package jobs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gearshift/router/fleet"
)

// Result is how a job ended.
type Result struct {
	Model string `json:"-"`
	Task  string `json:"task"`
	// Inputs is how many requests it has.
	Inputs int `json:"inputs"`
	// MinQuality is what it asks for, Promised the mean quality that was planned for it, and
	// Quality that of the answers.
	MinQuality float64 `json:"min_quality"`
	Promised   float64 `json:"quality_promised"`
	Quality    float64 `json:"quality"`
	TotalMS    float64 `json:"total_ms"`
	TookMS     float64 `json:"took_ms"`
	// Kept says that all requests were answered, in time, and with the quality asked for.
	Kept bool `json:"kept"`
	// Strategy is how many of the requests each variant has answered.
	Strategy map[string]int `json:"strategy"`
	// Worker is the last that worked on it, Batches how many it took, and Failures how many
	// failed.
	Worker   string       `json:"worker,omitempty"`
	Batches  int          `json:"batches"`
	Failures int          `json:"failures,omitempty"`
	Explain  *Explanation `json:"explain,omitempty"`

	// Utility sums what its answers are worth; the server around it fills it in.
	Utility float64 `json:"-"`
	// Busy holds how long each batch kept an engine at work, by replica.
	Busy []Busy `json:"-"`
	// Outcome is how it ended, as metrics and logs have it.
	Outcome string `json:"-"`
	// Tokens are those that engines have counted.
	Tokens int `json:"-"`
	job    *Job
}

// Busy is a replica's time at work on a batch.
type Busy struct {
	Replica int
	Took    time.Duration
}

// The ways in which jobs end.
const (
	outcomeKept    = "kept"
	outcomeLate    = "late"
	outcomeShort   = "below_floor" // of the quality asked for
	outcomeDropped = "dropped"     // for want of time, room or workers
	outcomeFailed  = "failed"      // with an engine, or by the job's own fault
	outcomeLeft    = "cancelled"   // by its client
)

// Answered reports whether all of its requests were answered, in time or not.
func (r *Result) Answered() bool {
	return r.Outcome == outcomeKept || r.Outcome == outcomeLate || r.Outcome == outcomeShort
}

// Failed reports whether its engine failed.
func (r *Result) Failed() bool { return r.Outcome == outcomeFailed }

// Left reports whether its client left before the end.
func (r *Result) Left() bool { return r.Outcome == outcomeLeft }

// Explanation says why a job was answered as it was.
type Explanation struct {
	// Waiting is how many other jobs waited for the worker when this one was begun, and WaitedMS
	// how long this one had.
	Waiting  int     `json:"waiting"`
	WaitedMS float64 `json:"waited_ms"`
	// ExpectMS is how long the plan expected it to take from there.
	ExpectMS float64 `json:"expect_ms"`
	// Options are what each option would have been for all of its requests.
	Options []Alternative `json:"options"`
}

// Alternative is an option as it was when a job was begun.
type Alternative struct {
	Variant string  `json:"variant"`
	Quality float64 `json:"quality"`
	// BatchMS is how long the worker takes for all requests of the job's last part, and InTime
	// whether that would have been in time; no batch is so large where BatchMS is left out.
	BatchMS float64 `json:"batch_ms,omitempty"`
	InTime  bool    `json:"in_time"`
	// Possible says that the requests have what it needs, and the client may use it.
	Possible bool `json:"possible"`
}

// writing counts the copies of the engines' answers that are made to write that to the client.
const writing = 2

// result is how the job ended.
func (j *Job) result(err error) *Result {
	m := j.model
	m.mu.Lock()
	defer m.mu.Unlock()
	n := float64(len(j.there))
	r := &Result{
		Model: m.Name, Task: m.Tasks[j.task].Name, Inputs: len(j.there), MinQuality: j.MinQuality, TotalMS: short(fleet.Milliseconds(j.Total)),
		TookMS: short(fleet.Milliseconds(j.service.Clock() - j.arrived)), Promised: short(j.promised / n), Strategy: map[string]int{}, Batches: j.batches, Failures: j.failures, Tokens: j.usage, Busy: j.busy, job: j,
	}
	var sum float64
	for _, a := range j.answered {
		if a.row != nil {
			o := &m.Options[m.entries[a.option].Option]
			r.Strategy[o.Variant]++
			sum += m.Tasks[j.task].Quality[o.Variant]
		}
	}
	mean := sum / n
	r.Quality = short(mean)
	if j.worked != nil {
		if r.Worker = j.host; r.Worker == "" {
			r.Worker = m.Workers[j.worked.Worker].Name
		}
		if j.Explain {
			r.Explain = j.explain()
		}
	}
	r.Outcome = outcome(err, r, mean+1e-9 >= j.MinQuality, j.service.Clock()-j.arrived <= j.Total)
	r.Kept = r.Outcome == outcomeKept
	return r
}

func outcome(err error, r *Result, good, inTime bool) string {
	var refused *Refused
	switch {
	case err == nil && !inTime:
		return outcomeLate
	case err == nil && !good:
		return outcomeShort
	case err == nil:
		return outcomeKept
	case errors.As(err, &refused) && refused.Load:
		return outcomeDropped
	case errors.As(err, &refused):
		return outcomeFailed
	}
	return outcomeLeft
}

// explain says what the last plan of the job had to choose from.
func (j *Job) explain() *Explanation {
	m, c := j.model, j.worked
	x := &Explanation{Waiting: c.Waiting, WaitedMS: short(j.at - fleet.Milliseconds(j.arrived)), ExpectMS: short(c.Expect)}
	n := 0
	for _, size := range c.Batches {
		n += size
	}
	slowness := m.pool.Workers[c.Worker].Slowness()
	for i, e := range m.entries {
		if e.Task != j.task {
			continue
		}
		o := &m.Options[e.Option]
		a := Alternative{Variant: o.Variant, Quality: m.Tasks[e.Task].Quality[o.Variant], Possible: c.Allowed>>i&1 == 1}
		if times := m.Workers[c.Worker].Latency[e.Option]; n <= len(times) {
			ms := times[n-1] * slowness
			a.BatchMS, a.InTime = short(ms), j.at+ms <= c.Deadline
		}
		x.Options = append(x.Options, a)
	}
	return x
}

// Line is the strategy on one line, such as "digits-image=2, digits-audio=1".
func (r *Result) Line() string {
	var list []string
	for _, o := range r.job.model.Options {
		if n := r.Strategy[o.Variant]; n > 0 {
			list = append(list, fmt.Sprintf("%s=%d", o.Variant, n))
		}
	}
	return strings.Join(slices.Compact(list), ", ")
}

// short rounds a number for people to six digits.
func short(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}
