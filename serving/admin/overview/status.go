package overview

import (
	"gearshift/router/fleet"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/engines"
	"gearshift/serving/engines/informed"
	"gearshift/serving/jobs"
)

// Status is the body of GET /v1/gearshift/status.
type Status struct {
	Policy string `json:"policy"`
	// Tuning is the search for a rule in the background; left out without one.
	Tuning *Tuning `json:"tuning,omitempty"`
	// Doubted reports whether a rule decides instead of the policy, as forecasts are off.
	Doubted  bool    `json:"policy_doubted,omitempty"`
	UptimeS  float64 `json:"uptime_s"`
	Draining bool    `json:"draining"`
	// ArrivalRate is per second, as the policy sees it.
	ArrivalRate float64 `json:"arrival_rate"`
	InFlight    int     `json:"in_flight"`
	// Placement is the number of changes of where replicas are placed.
	Placement uint64 `json:"placement_epoch"`
	Fallbacks uint64 `json:"fallbacks"`
	Rejected  uint64 `json:"rejected"`
	// Queue is what waits for room, by class.
	Queue []metrics.QueueStatus `json:"queue"`
	// Jobs are the workers of models whose inputs are chosen, and what waits for them; left out
	// without such models.
	Jobs []jobs.Queue `json:"jobs,omitempty"`
	// Total sums the ended requests, Variants and Tasks split them.
	Total    metrics.Counts   `json:"total"`
	Variants []metrics.Counts `json:"variants"`
	Tasks    []metrics.Counts `json:"tasks"`
	Replicas []ReplicaStatus  `json:"replicas"`
}

// Tuning is a search for rules on simulated load while the server routes by its fallback.
type Tuning struct {
	State string `json:"state"`
	// Done counts the points that have been played, of Total at most.
	Done  int `json:"done,omitempty"`
	Total int `json:"total,omitempty"`
	// Rule is the best rule found, and Over the fallback that it was compared with.
	Rule string `json:"rule,omitempty"`
	Over string `json:"over,omitempty"`
	// Margin is the mean score per request of the rule found, by the scenario's objective, less that of Over,
	// paired by seed, with its 95 % interval.
	Margin     float64 `json:"margin"`
	MarginLow  float64 `json:"margin_low"`
	MarginHigh float64 `json:"margin_high"`
	Seeds      int     `json:"seeds,omitempty"`
	// Adopted reports whether the rule found is the fallback now.
	Adopted bool   `json:"adopted"`
	Error   string `json:"error,omitempty"`
}

// The states of a [Tuning].
const (
	TuningSoon   = "begins soon"
	TuningRuns   = "searching"
	TuningDone   = "done"
	TuningFailed = "failed"
)

// ReplicaStatus is one replica at this moment.
type ReplicaStatus struct {
	Name     string `json:"name"`
	Variant  string `json:"variant"`
	Host     string `json:"host"`
	Up       bool   `json:"up"`
	Drained  bool   `json:"drained"` // by an operator's order
	InFlight int32  `json:"in_flight"`
	// Limit of the requests in flight; zero is none.
	Limit int `json:"limit"`
	// KVUse is the share of the KV cache that the requests fill; left out if its
	// size is unknown.
	KVUse *float64 `json:"kv_use,omitempty"`
	// Context is how many tokens a prompt and its answer may have together; left out if
	// that is not known.
	Context int `json:"context,omitempty"`
	// Drift is the smoothed time per token, measured as a multiple of what the
	// profile says; left out before there are enough answers.
	Drift *float64 `json:"profile_drift,omitempty"`
	// Slowdown is how many times as long as its profile says forecasts take it to
	// take at the moment; none if as long.
	Slowdown *float64 `json:"slowdown,omitempty"`
	engines.Status
	// Signal is what is known of its load, where a balancer chooses by that.
	Signal *informed.Status `json:"signal,omitempty"`
	// Lifecycle is whether its model is loaded, and what is done about it.
	Lifecycle engines.LifecycleStatus `json:"lifecycle"`
}

// Status is what the server has done so far, and how the fleet stands.
func (o *Overview) Status() Status {
	var v fleet.View
	now := o.Clock()
	o.Router.Ledger().View(now, &v)
	out := Status{
		Policy: o.Router.PolicyName(), Doubted: o.Router.Doubted(), UptimeS: (now - o.Started).Seconds(),
		Draining: o.Draining(), ArrivalRate: v.Rate, Placement: o.Router.Ledger().Epoch(), Queue: o.Metrics.Queue.Status(), Jobs: o.Jobs(),
	}
	statuses, lifecycles, signals := o.Engines.Statuses(now), o.Engines.Lifecycles(), o.Signals(now)
	for i, r := range o.table.Replicas {
		out.InFlight += v.Own(i)
		out.Replicas = append(out.Replicas, ReplicaStatus{
			Name: r.Name, Variant: o.table.Variants[r.Variant].Name, Host: o.table.Hosts[r.Host].Name,
			Up: !v.Down[i], Drained: o.Router.Ledger().Drained(i), InFlight: int32(v.Own(i)), Limit: r.Limit, KVUse: o.kvUse(i), Context: o.Context(i), Drift: o.driftOf(i), Slowdown: o.slowdownOf(i), Status: statuses[i], Signal: signals[i], Lifecycle: lifecycles[i],
		})
	}
	if o.Tuning != nil {
		out.Tuning = o.Tuning()
	}
	sums := o.Metrics.Totals()
	out.Fallbacks, out.Rejected = sums.Fallbacks, sums.Rejected
	out.Total, out.Variants, out.Tasks = sums.Total, sums.Variants, sums.Tasks
	return out
}

func (o *Overview) kvUse(replica int) *float64 {
	if size := o.table.Replicas[replica].KVTokens; size > 0 {
		return Pointer(float64(o.Held(replica)) / float64(size))
	}
	return nil
}

// slowdownOf is nil of a replica that is not taken to be slow.
func (o *Overview) slowdownOf(replica int) *float64 {
	if factor := o.Engines.Slowdown(replica); factor > 1 {
		return Pointer(factor)
	}
	return nil
}

// driftOf is nil of a replica that has not answered enough.
func (o *Overview) driftOf(replica int) *float64 {
	if ratio, known := o.Engines.DriftOf(replica); known {
		return Pointer(ratio)
	}
	return nil
}
