package clients

import (
	"slices"
	"time"
)

// Result is what came of a run, of the requests that are counted.
type Result struct {
	Requests, Timeouts int
	// Sent counts all requests that were sent, those of the warm-up included.
	Sent int
	// Polls and Probes count how often hosts were asked for their counters: before a choice,
	// and beside a request.
	Polls, Probes int
	// Copies counts the second copies of hedged requests.
	Copies int
	// Uneven is by how much the work that hosts have for each core differs between them: the
	// standard deviation, in the mean over the run.
	Uneven time.Duration
	// Times are those from arrival to answer, in order of their length.
	Times []time.Duration
	// Failed counts the requests for which there was no replica, or whose replica was unloaded
	// before it had answered. They are among Requests, and have no time.
	Failed int
	// Utilisation is the share of each host's cores that was busy after the warm-up, and
	// Answered how many requests it has answered since.
	Utilisation []float64
	Answered    []int
	// Loads and Unloads count the actions on replicas that were done, and Refused those that
	// were not begun.
	Loads, Unloads, Refused int
	// Series has a moment for each period, in order.
	Series []Moment
}

// Mean is that of the response times.
func (r *Result) Mean() time.Duration {
	if len(r.Times) == 0 {
		return 0
	}
	sum := 0.0
	for _, t := range r.Times {
		sum += float64(t)
	}
	return time.Duration(sum / float64(len(r.Times)))
}

// Quantile is the response time within which a share q of the requests was answered.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.Times) == 0 {
		return 0
	}
	return r.Times[min(len(r.Times)-1, int(q*float64(len(r.Times))))]
}

// TimeoutShare is the share of requests that timed out, or failed.
func (r *Result) TimeoutShare() float64 {
	return float64(r.Timeouts+r.Failed) / float64(max(1, r.Requests))
}

// Tail is the mean utilisation of the busiest twentieth of the hosts, of one at least (META-1).
func (r *Result) Tail() float64 { return tail(r.Utilisation) }

// tail is the mean of the greatest twentieth, of one at least.
func tail(list []float64) float64 {
	hosts := slices.Clone(list)
	slices.Sort(hosts)
	hosts = hosts[len(hosts)-max(1, len(hosts)/20):]
	sum := 0.0
	for _, u := range hosts {
		sum += u
	}
	return sum / float64(len(hosts))
}

// Moment is what came of one period.
type Moment struct {
	// At is when the period ended.
	At time.Duration
	// Requests are those that ended in the period, of which Timeouts took too long, and Failed
	// were not answered.
	Requests, Timeouts, Failed int
	// Utilisation is the share of each host's cores that was busy, and Bandwidth that of its
	// memory's bandwidth that was in use.
	Utilisation, Bandwidth []float64
	// Loads and Unloads count the actions on replicas that were done in the period.
	Loads, Unloads int
}

// Tail is the mean utilisation of the busiest twentieth of the hosts in the period.
func (m *Moment) Tail() float64 { return tail(m.Utilisation) }
