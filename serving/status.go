package serving

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/engines"
	"gearshift/serving/figures"
	"gearshift/serving/metrics"
	"gearshift/serving/wire"
)

// Status is the body of GET /v1/gearshift/status.
type Status struct {
	Policy   string  `json:"policy"`
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
	// Total sums the ended requests, Variants and Tasks split them.
	Total    metrics.Counts   `json:"total"`
	Variants []metrics.Counts `json:"variants"`
	Tasks    []metrics.Counts `json:"tasks"`
	Replicas []ReplicaStatus  `json:"replicas"`
}

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
	// profile says; left out before enough answers tell.
	Drift *float64 `json:"profile_drift,omitempty"`
	// Slowdown is how many times as long as its profile says forecasts take it to
	// take at the moment; none if as long.
	Slowdown *float64 `json:"slowdown,omitempty"`
	engines.Status
	// Lifecycle is whether its model is loaded, and what is done about it.
	Lifecycle engines.LifecycleStatus `json:"lifecycle"`
}

// Status is what the server has done so far, and how the fleet stands.
func (s *Server) Status() Status {
	var v fleet.View
	now := s.clock()
	s.router.Ledger().View(now, &v)
	out := Status{
		Policy: s.router.PolicyName(), UptimeS: (now - s.started).Seconds(),
		Draining: s.draining.Load(), ArrivalRate: v.Rate, Placement: s.router.Ledger().Epoch(), Queue: s.metrics.Queue.Status(),
	}
	statuses, lifecycles := s.engines.Statuses(now), s.engines.Lifecycles()
	for i, r := range s.table.Replicas {
		out.InFlight += v.Own(i)
		out.Replicas = append(out.Replicas, ReplicaStatus{
			Name: r.Name, Variant: s.table.Variants[r.Variant].Name, Host: s.table.Hosts[r.Host].Name,
			Up: !v.Down[i], Drained: s.router.Ledger().Drained(i), InFlight: int32(v.Own(i)), Limit: r.Limit, KVUse: s.kvUse(i), Context: s.contexts.of(i), Drift: s.driftOf(i), Slowdown: s.slowdownOf(i), Status: statuses[i], Lifecycle: lifecycles[i],
		})
	}
	sums := s.metrics.Totals()
	out.Fallbacks, out.Rejected = sums.Fallbacks, sums.Rejected
	out.Total, out.Variants, out.Tasks = sums.Total, sums.Variants, sums.Tasks
	return out
}

func (s *Server) kvUse(replica int) *float64 {
	if size := s.table.Replicas[replica].KVTokens; size > 0 {
		return figures.Pointer(float64(s.adapter.Held(replica)) / float64(size))
	}
	return nil
}

func (s *Server) status(c *gin.Context) { c.JSON(http.StatusOK, s.Status()) }

// slowdownOf is nil of a replica that is not taken to be slow.
func (s *Server) slowdownOf(replica int) *float64 {
	if factor := s.engines.Slowdown(replica); factor > 1 {
		return figures.Pointer(factor)
	}
	return nil
}

// driftOf is nil of a replica that has not answered enough.
func (s *Server) driftOf(replica int) *float64 {
	if ratio, known := s.engines.DriftOf(replica); known {
		return figures.Pointer(ratio)
	}
	return nil
}

// alive says that the process answers.
func (s *Server) alive(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }

// ready says whether requests should be sent here: not while shutting down,
// nor while every replica is down. A full fleet is ready; it asks for patience.
func (s *Server) ready(c *gin.Context) {
	switch {
	case s.draining.Load():
		s.notReady(c, "shutting down")
	case !s.anyUp():
		s.notReady(c, "no replica is up")
	default:
		c.JSON(http.StatusOK, gin.H{"status": "ready"})
	}
}

func (s *Server) notReady(c *gin.Context, why string) {
	s.fail(c, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "not_ready", Message: why})
}

func (s *Server) anyUp() bool {
	var v fleet.View
	s.router.Ledger().View(s.clock(), &v)
	for _, down := range v.Down {
		if !down {
			return true
		}
	}
	return false
}
