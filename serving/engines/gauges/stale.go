package gauges

import (
	"math"
	"time"
)

// This file keeps the state of a server between readings.

// enter reports whether there is an engine to read, and clears the state of another one.
func (t *round) enter() bool {
	if t.Engine == nil {
		return true
	}
	if now := t.Engine(); now != t.engine {
		t.engine, t.missed, t.lacking, t.err, t.read, t.fresh, t.path = now, 0, 0, nil, false, false, ""
	}
	return t.engine != 0
}

// note counts scrapes that failed.
func (s *Scraper) note(t *round, err error) {
	t.err = err
	if err != nil {
		if t.missed++; t.missed == given && !t.read {
			s.reported(t.Source, false, err)
		}
		return
	}
	if t.missed, t.read = 0, true; !t.fresh {
		t.fresh = true
		s.reported(t.Source, true, nil)
	}
}

// given counts the failed scrapes after which a server has no gauges.
const given = 3

// expire removes the corrections of a reading that has become too old. It returns when the present one will be.
func (s *Scraper) expire(t *round) time.Duration {
	if !t.fresh {
		return math.MaxInt64
	}
	if stale, ok := s.signals.Fresh(t.Replicas, s.config.StaleAfter, s.clock()); ok {
		return stale
	}
	s.forget(t)
	s.reported(t.Source, false, t.err)
	return math.MaxInt64
}

// forget removes the corrections by a server's gauges.
func (s *Scraper) forget(t *round) {
	if !t.fresh {
		return
	}
	t.fresh = false
	s.signals.Forget(t.Replicas)
}

// In a fleet of more than manyServers, one whose engines have no requests is read every idlePause intervals: the
// reading costs the router and the engine more than it shows.
const (
	manyServers = 64
	idlePause   = 3
)

// none reports whether the engine says that it has no requests.
func (r *Reading) none() bool {
	n, ok := r.Requests()
	return ok && n == 0
}
