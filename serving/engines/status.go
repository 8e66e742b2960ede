package engines

import (
	"time"

	"gearshift/router/health"
	"gearshift/router/signals"
)

// Status is how a replica's engine is doing.
type Status struct {
	// State is up, ejected, half_open or slow_start; SinceS for how long.
	State  string  `json:"state"`
	SinceS float64 `json:"since_s"`
	// Why is the reason of the ejection that the state stems from.
	Why string `json:"why,omitempty"`
	// Note says in words why, of a replica whose server does not have its model.
	Note string `json:"note,omitempty"`
	// Cap of the requests in flight while it comes back; none if left out.
	Cap int `json:"cap,omitempty"`
	// Busy says that it has lately refused requests for want of room, and gets fewer.
	Busy bool `json:"busy,omitempty"`
	// Gauges are what the engine last said of itself, if it did.
	Gauges *GaugeStatus `json:"gauges,omitempty"`
}

// GaugeStatus is what an engine said of itself. What it left out is left out.
type GaugeStatus struct {
	AgeS float64 `json:"age_s"`
	// Stale gauges correct nothing.
	Stale   bool     `json:"stale"`
	Running *float64 `json:"running,omitempty"`
	Waiting *float64 `json:"waiting,omitempty"`
	KVUse   *float64 `json:"kv_use,omitempty"`
	// OthersInFlight and OthersHeld are the requests, and the tokens that they
	// hold, by which the router's own counts are corrected now.
	OthersInFlight int `json:"others_in_flight"`
	OthersHeld     int `json:"others_held_tokens"`
}

// Statuses are those of all replicas.
func (e *Engines) Statuses(now time.Duration) []Status {
	readings := e.signals.Signals()
	list := make([]Status, len(readings))
	for i, h := range e.health.monitor.Statuses() {
		list[i] = statusOf(h, readings[i], now)
	}
	return list
}

func statusOf(h health.Status, g signals.Signal, now time.Duration) Status {
	e := Status{State: h.State.String(), SinceS: (now - h.Since).Seconds(), Why: string(h.Why), Note: h.Note, Cap: h.Cap, Busy: h.Busy}
	if !g.Read {
		return e
	}
	said := func(value float64) *float64 {
		if value < 0 {
			return nil
		}
		return &value
	}
	e.Gauges = &GaugeStatus{
		AgeS: (now - g.At).Seconds(), Stale: g.Stale,
		Running: said(g.Running), Waiting: said(g.Waiting), KVUse: said(g.KVUse),
		OthersInFlight: g.Others.InFlight, OthersHeld: g.Others.Held,
	}
	return e
}

// DriftOf is the smoothed time per token of the replica, as a multiple of its profile's; not
// known before it has answered enough.
func (e *Engines) DriftOf(replica int) (ratio float64, known bool) {
	ratio, _, known = e.options.Drift.Ratio(replica)
	return ratio, known
}

// Slowdown is the factor by which forecasts stretch the profile of the replica; 1 is as
// fast.
func (e *Engines) Slowdown(replica int) float64 { return e.options.Drift.Shown(replica) }
