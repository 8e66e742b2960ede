package drift

import (
	"math"
	"sync"
	"time"
)

const (
	// stretch is how many tokens of a stream are compared at a time: few, to notice soon
	// that a replica has become slow.
	stretch = 16
	// recent is over how many stretches that is smoothed, and lasting over how many it is
	// for what a profile is off by all the time.
	recent, lasting = 8, 32
	// SlowFrom is the factor from which a lastingly slow replica counts as slow. It is
	// hardly more than the deviation of engines that keep to their profiles: where one
	// sequence alone nearly takes the deadline, every percent counts. Below SlowTo the
	// replica is no longer slow.
	SlowFrom, SlowTo = 1.06, 1.03
	// slowest is the most that is believed, as a multiple of what is predicted.
	slowest = 8
	// fade is the time without a stretch after which the estimate begins to fade, and in
	// which it halves then: a replica that gets no requests because it is slow is tried
	// again.
	fade = 2 * time.Minute
	// FadeEvery is how often [Monitor.Fade] is to be called.
	FadeEvery = 5 * time.Second
)

// slowdown is how slow the replica is at the moment, by the stretches of its streams:
// quicker to move than [estimate], and forgotten.
type slowdown struct {
	mu     sync.Mutex // protects all below
	recent trend
	// lasting is at most [Bound]: beyond, the recent trend is in force. It is reset when
	// that is over.
	lasting trend
	last    time.Duration // when a stretch came
	factor  float64       // in force; 1 is none, and so is 0, before the first
	notice  notice
	shown   float64 // see [Monitor.Shown]
}

// trend smooths the logarithm of measured ÷ predicted.
type trend struct {
	level     float64
	stretches int
	force     bool // it is in force
}

// add takes in a stretch, smoothed over so many; the level is at most that of a factor.
func (t *trend) add(level float64, over int, most float64) {
	t.stretches++
	surprise, bound := level-t.level, math.Log(outlier)
	t.level += max(-bound, min(surprise, bound)) / float64(min(t.stretches, over))
	t.level = min(t.level, math.Log(most))
}

// factor is that of the part of the level that is left, 1 if it is not in force: that
// begins with one factor, of so many stretches, and ends with another.
func (t *trend) factor(left, from, to float64, fewest int) float64 {
	level, bound := left*t.level, math.Log(from)
	if t.force {
		bound = math.Log(to)
	}
	if t.force = level > bound && t.stretches >= fewest; t.force {
		return math.Exp(level)
	}
	return 1
}

// add takes in a stretch that ended now. The estimate fades only up to its beginning.
func (s *slowdown) add(now, measured, predicted time.Duration) {
	left, level := s.left(now-measured), math.Log(float64(measured)/float64(predicted))
	s.recent.level, s.lasting.level = left*s.recent.level, left*s.lasting.level
	s.recent.add(level, recent, slowest)
	s.lasting.add(level, lasting, Bound)
	s.last = now
}

// left returns the share of the levels that has not faded.
func (s *slowdown) left(now time.Duration) float64 {
	if idle := now - s.last - fade; idle > 0 {
		return math.Exp2(-float64(idle) / float64(fade))
	}
	return 1
}

// decide returns the factor to forecast with from now on, and whether it differs enough from
// the one in force to be reported.
func (s *slowdown) decide(now time.Duration) (factor float64, report bool) {
	left, was := s.left(now), s.recent.force
	factor = s.recent.factor(left, Bound, Back, recent)
	if was && !s.recent.force {
		s.lasting = trend{}
	}
	factor = max(factor, s.lasting.factor(left, SlowFrom, SlowTo, lasting))
	before := max(1, s.factor)
	return factor, (factor > 1) != (before > 1) || math.Abs(factor/before-1) > 0.05
}

// slow takes in how long a stretch of a stream took.
func (m *Monitor) slow(replica int, now, measured, predicted time.Duration) {
	s := &m.replicas[replica].slowdown
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.OnSlow == nil || m.silent.Load() { // read under the lock, so that no call follows Correct(false)
		return
	}
	s.add(now, measured, predicted)
	m.settle(replica, now)
}

// Fade weakens the estimates of replicas without recent stretches, and decides on doubt. Call it every
// [FadeEvery].
func (m *Monitor) Fade(now time.Duration) {
	for i := range m.replicas {
		s := &m.replicas[i].slowdown
		s.mu.Lock()
		if m.OnSlow != nil {
			m.settle(i, now)
		}
		s.mu.Unlock()
	}
	m.reconsider(now)
}

// settle puts a factor in force if it differs. It holds the slowdown's lock, so that the last
// one reported is the last one decided.
func (m *Monitor) settle(replica int, now time.Duration) {
	s := &m.replicas[replica].slowdown
	factor, report := s.decide(now)
	if report {
		s.factor = factor
		m.OnSlow(replica, factor)
	}
	m.logChange(replica, now, factor)
}

// logChange logs that the replica is slow, and that it no longer is. A replica that is slow
// off and on is logged once, and then every [again] with how often.
func (m *Monitor) logChange(replica int, now time.Duration, factor float64) {
	s := &m.replicas[replica].slowdown
	name := m.table.Replicas[replica].Name
	switch what, times := s.notice.see(now, s.recent.force); what {
	case began:
		m.config.Log.Info("replica is slow: forecasts allow for it", "replica", name, "slowdown", rounded(factor))
	case goesOn:
		m.config.Log.Info("replica is slow off and on: forecasts allow for it while it is", "replica", name, "times", times, "slowdown", rounded(max(1, s.shown)))
	case over:
		m.config.Log.Info("replica is no longer so slow", "replica", name, "slow_times", 1+times)
	}
	if s.recent.force || !s.notice.said {
		s.shown = factor
	}
}

// Correct sets whether [Monitor.OnSlow] is called for slow replicas, which is the default.
// When it is turned off, none is slow any more.
func (m *Monitor) Correct(on bool) {
	if m == nil {
		return
	}
	if m.silent.Store(!on); !on {
		m.Forget()
	}
}

// Forget makes no replica slow until its streams show it again. Call it when the engines
// have been replaced.
func (m *Monitor) Forget() {
	if m == nil {
		return
	}
	if m.doubt.forget() && m.OnDoubt != nil {
		m.OnDoubt(false)
	}
	for i := range m.replicas {
		m.replicas[i].residual.forget()
		m.forget(i)
	}
}

// ForgetReplica forgets the replica's pace, since another engine answers for it.
func (m *Monitor) ForgetReplica(replica int) {
	if m == nil {
		return
	}
	m.replicas[replica].estimate.forget()
	m.replicas[replica].residual.forget()
	m.forget(replica)
}

// forget makes the replica not slow until its streams show it again.
func (m *Monitor) forget(i int) {
	s := &m.replicas[i].slowdown
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent, s.lasting = trend{force: s.recent.force}, trend{}
	if m.OnSlow != nil {
		m.settle(i, s.last)
	}
	if s.notice.said {
		m.config.Log.Info("replica is no longer so slow", "replica", m.table.Replicas[i].Name, "slow_times", 1+s.notice.times)
	}
	s.notice, s.shown = notice{}, 1
}

// Slowdown returns how many times as long as its profile says the replica takes at the
// moment, by estimate, 1 or more.
func (m *Monitor) Slowdown(replica int) float64 {
	if m == nil {
		return 1
	}
	s := &m.replicas[replica].slowdown
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.factor)
}

// Shown is [Monitor.Slowdown] for displays. For a replica that is slow off and on it stays
// at the last factor until the replica has not been slow for a minute.
func (m *Monitor) Shown(replica int) float64 {
	if m == nil {
		return 1
	}
	s := &m.replicas[replica].slowdown
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.shown)
}
