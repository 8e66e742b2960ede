package drift

import (
	"math"
	"sync"
	"time"
)

const (
	// stretch is how many tokens of a stream are compared at a time, to tell soon
	// that a replica has become slow.
	stretch = 16
	// recent is over how many stretches that is smoothed.
	recent = 8
	// slowest is the most that is believed, as a multiple of what is predicted.
	slowest = 8
	// fade is after what time without a stretch the belief begins to fade, and in what
	// time it halves then: a replica that gets no requests, for being slow, is tried
	// again.
	fade = 2 * time.Minute
)

// slowdown is how slow the replica is at the moment, by the stretches of its streams:
// quicker to move than [estimate], and forgotten.
type slowdown struct {
	mu        sync.Mutex // protects all below
	level     float64    // the logarithm of measured ÷ predicted
	stretches int
	last      time.Duration // when a stretch came
	factor    float64       // in force; 1 is none, and so is 0, before the first
}

// add takes in a stretch that ended now. However long it took, something was heard.
func (s *slowdown) add(now, measured, predicted time.Duration) {
	s.level = s.at(now - measured)
	s.stretches++
	s.last = now
	surprise, most := math.Log(float64(measured)/float64(predicted))-s.level, math.Log(outlier)
	s.level += max(-most, min(surprise, most)) / float64(min(s.stretches, recent))
	s.level = min(s.level, math.Log(slowest))
}

// at is what is left of the level.
func (s *slowdown) at(now time.Duration) float64 {
	if idle := now - s.last - fade; idle > 0 {
		return s.level * math.Exp2(-float64(idle)/float64(fade))
	}
	return s.level
}

// decide is the factor to reckon with from now on, and whether it differs from the one
// in force by enough to be told.
func (s *slowdown) decide(now time.Duration) (factor float64, tell bool) {
	level, bound := s.at(now), math.Log(Bound)
	if s.factor > 1 {
		bound = math.Log(Back)
	}
	factor = 1
	if level > bound && s.stretches >= recent {
		factor = math.Exp(level)
	}
	before := max(1, s.factor)
	return factor, (factor > 1) != (before > 1) || math.Abs(factor/before-1) > 0.05
}

// slow takes in how long a stretch of a stream took.
func (m *Monitor) slow(replica int, now, measured, predicted time.Duration) {
	s := &m.replicas[replica].slowdown
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.OnSlow == nil || m.silent.Load() { // under the lock, so that none comes after the last word
		return
	}
	s.add(now, measured, predicted)
	m.settle(replica, now)
}

// Fade lets what is believed of replicas fade of which nothing was heard; it is to be
// called every some seconds.
func (m *Monitor) Fade(now time.Duration) {
	for i := range m.replicas {
		s := &m.replicas[i].slowdown
		s.mu.Lock()
		m.settle(i, now)
		s.mu.Unlock()
	}
}

// settle puts a factor in force if it is another, under the slowdown's lock, so that
// the last one told is the last one decided.
func (m *Monitor) settle(replica int, now time.Duration) {
	s := &m.replicas[replica].slowdown
	factor, tell := s.decide(now)
	if !tell {
		return
	}
	if turned := (factor > 1) != (s.factor > 1); turned && factor > 1 {
		m.config.Log.Info("replica is slow: forecasts reckon with it", "replica", m.table.Replicas[replica].Name, "slowdown", rounded(factor))
	} else if turned {
		m.config.Log.Info("replica is no longer reckoned to be slow", "replica", m.table.Replicas[replica].Name)
	}
	s.factor = factor
	m.OnSlow(replica, factor)
}

// Correct says whether [Monitor.OnSlow] is told of slow replicas, which it is unless
// somebody says otherwise. When that ends, none is slow any more.
func (m *Monitor) Correct(on bool) {
	if m == nil {
		return
	}
	if m.silent.Store(!on); !on {
		m.Forget()
	}
}

// Forget has no replica be slow until its streams say so anew: the engines are others.
func (m *Monitor) Forget() {
	if m == nil {
		return
	}
	for i := range m.replicas {
		s := &m.replicas[i].slowdown
		s.mu.Lock()
		s.level, s.stretches = 0, 0
		m.settle(i, s.last)
		s.mu.Unlock()
	}
}

// Slowdown is how many times as long as its profile says the replica is reckoned to
// take at the moment, 1 or more.
func (m *Monitor) Slowdown(replica int) float64 {
	if m == nil {
		return 1
	}
	s := &m.replicas[replica].slowdown
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.factor)
}
