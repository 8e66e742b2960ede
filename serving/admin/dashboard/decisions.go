package dashboard

import (
	"time"

	"gearshift/serving"
	"gearshift/serving/admin/overview"
)

// Decision is a request as the page shows it.
type Decision struct {
	// Number identifies a decision; Revision grows with each change of any.
	Number   uint64 `json:"number"`
	Revision uint64 `json:"revision"`
	// AtMS is the arrival, in ms of Unix time.
	AtMS      int64  `json:"at_ms"`
	ID        string `json:"id"`
	Tenant    string `json:"tenant,omitempty"`
	Operation string `json:"operation"`
	Asked     string `json:"asked,omitempty"`
	// Where it went; empty unless it was routed.
	Task     string `json:"task,omitempty"`
	Variant  string `json:"variant,omitempty"`
	Replica  string `json:"replica,omitempty"`
	Host     string `json:"host,omitempty"`
	Policy   string `json:"policy,omitempty"`
	Fallback string `json:"fallback,omitempty"`
	// How it ended; Outcome is empty as long as it has not.
	Outcome    string  `json:"outcome,omitempty"`
	Status     int     `json:"status,omitempty"`
	Code       string  `json:"code,omitempty"`
	Attempts   int     `json:"attempts,omitempty"`
	Tokens     int     `json:"tokens,omitempty"`
	TTFTMS     float64 `json:"ttft_ms,omitempty"`
	LatencyMS  float64 `json:"latency_ms,omitempty"`
	PerTokenMS float64 `json:"per_token_ms,omitempty"`
	DeadlineMS float64 `json:"deadline_ms,omitempty"`
	// Met is nil unless the deadline was judged.
	Met         *bool                 `json:"met,omitempty"`
	Utility     float64               `json:"utility"`
	OverheadUS  int64                 `json:"overhead_us,omitempty"`
	WaitedMS    float64               `json:"waited_ms,omitempty"`
	Explanation *overview.Explanation `json:"explanation,omitempty"`
}

// decision describes the request as it is now.
func (d *Dashboard) decision(a *serving.Account) Decision {
	x := Decision{
		AtMS: a.At.UnixMilli(), ID: a.ID, Tenant: a.Tenant, Operation: a.Operation, Asked: a.Asked,
		Code: a.Code, Explanation: a.Explanation,
	}
	if a.Ended() {
		x.Outcome, x.Status = a.Outcome(), a.Status
	}
	w := a.Work
	if w == nil {
		if r := a.Job; r != nil {
			x.Task, x.Variant, x.Host, x.Met, x.LatencyMS, x.Utility = r.Task, r.Line(), r.Worker, &r.Kept, r.TookMS, r.Utility
		}
		return x
	}
	task, replica := &d.table.Tasks[w.Request.Task], &d.table.Replicas[w.Replica]
	x.Task, x.Variant = task.Name, d.table.Variants[w.Variant].Name
	x.Replica, x.Host = replica.Name, d.table.Hosts[replica.Host].Name
	x.Policy, x.Fallback = w.Policy, w.Reason
	x.WaitedMS = ms(w.Waited)
	x.DeadlineMS = ms(task.Deadlines(&w.Request).PerToken)
	if !a.Ended() {
		return x // what follows is still the request's own
	}
	r := a.Result
	x.Attempts, x.Tokens, x.Utility, x.OverheadUS = a.Attempts, r.Tokens, r.Utility, a.Overhead.Microseconds()
	x.TTFTMS, x.LatencyMS, x.PerTokenMS = ms(w.FirstToken), ms(r.Latency), ms(r.PerToken)
	if r.Judged {
		x.Met = &r.Met
	}
	return x
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// decisions is a ring of the last ones.
type decisions struct {
	ring     []Decision
	count    uint64            // so far, which number them from 1 on
	revision uint64            // so far
	open     map[uint64]uint64 // number of the decision about each request under way
}

func newDecisions() decisions {
	return decisions{ring: make([]Decision, recent), open: map[uint64]uint64{}}
}

// slot is where the decision of a number is, if it has not made way for another.
func (d *decisions) slot(number uint64) *Decision {
	x := &d.ring[number%recent]
	if x.Number != number {
		return nil
	}
	return x
}

// add enters a decision about a request that is under way, or over if that is zero.
func (d *decisions) add(request uint64, x Decision) {
	d.count++
	d.revision++
	x.Number, x.Revision = d.count, d.revision
	d.ring[x.Number%recent] = x
	if request != 0 {
		d.open[request] = x.Number
	}
	if len(d.open) > 2*recent {
		d.forget()
	}
}

// forget drops what was kept of requests whose decisions have made way.
func (d *decisions) forget() {
	for request, number := range d.open {
		if d.slot(number) == nil {
			delete(d.open, request)
		}
	}
}

// update ends a decision that was added. It reports false if it was not.
func (d *decisions) update(request uint64, x Decision) bool {
	number, ok := d.open[request]
	if !ok {
		return false
	}
	delete(d.open, request)
	if old := d.slot(number); old != nil {
		d.revision++
		x.Number, x.Revision = number, d.revision
		*old = x
	}
	return true
}

// since lists the decisions that have changed after a revision, the oldest first.
func (d *decisions) since(revision uint64) []Decision {
	list := []Decision{}
	first := uint64(1)
	if d.count > recent {
		first = d.count - recent + 1
	}
	for number := first; number <= d.count; number++ {
		if x := d.slot(number); x != nil && x.Revision > revision {
			list = append(list, *x)
		}
	}
	return list
}
