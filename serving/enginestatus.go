package serving

import (
	"time"

	"gearshift/router/health"
	"gearshift/router/signals"
)

// EngineStatus is how a replica's engine is doing.
type EngineStatus struct {
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

// engineStatuses are those of all replicas.
func (s *Server) engineStatuses(now time.Duration) []EngineStatus {
	readings := s.signals.Signals()
	list := make([]EngineStatus, len(readings))
	for i, standing := range s.health.monitor.Statuses() {
		list[i] = engineStatus(standing, readings[i], now)
	}
	return list
}

func engineStatus(h health.Status, g signals.Signal, now time.Duration) EngineStatus {
	e := EngineStatus{State: h.State.String(), SinceS: (now - h.Since).Seconds(), Why: string(h.Why), Note: h.Note, Cap: h.Cap, Busy: h.Busy}
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
