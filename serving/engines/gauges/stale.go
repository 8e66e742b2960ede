package gauges

import (
	"math"
	"time"
)

// This file keeps what is known of a server between readings.

// enter reports whether there is an engine to read. What is known of another one is forgotten.
func (t *round) enter() bool {
	if t.Engine == nil {
		return true
	}
	if now := t.Engine(); now != t.engine {
		t.engine, t.missed, t.lacking, t.err, t.read, t.fresh, t.path = now, 0, 0, nil, false, false, ""
	}
	return t.engine != 0
}

// note keeps count of scrapes that failed.
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

// given is how many scrapes a server may fail before it counts as one without
// gauges.
const given = 3

// expire takes back the corrections of a reading that has become too old. It
// returns when the present one will be.
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

// forget takes back the corrections by a server's gauges, if there are any.
func (s *Scraper) forget(t *round) {
	if !t.fresh {
		return
	}
	t.fresh = false
	s.signals.Forget(t.Replicas)
}
