package feedback

import (
	"errors"
	"sync"
	"time"

	"gearshift/serving/config"
)

// ErrTooMany refuses a score of a key that has given as many in this hour as it may.
var ErrTooMany = errors.New("the key has given as many scores in this hour as it may (quality.feedback.per_key)")

// Service takes scores of answers from those who asked for them. Its methods may be called from
// any goroutine.
type Service struct {
	*Memory
	settings func() config.Feedback
	clock    func() time.Duration
	metrics  *metrics

	mu      sync.Mutex // protects all below
	since   time.Duration
	given   map[string]int // by owner, since then
	pending []Label
}

// mostPending bounds the scores that wait to be learned.
const mostPending = 10_000

// New returns a service that has taken nothing yet.
func New(settings func() config.Feedback, names Names, clock func() time.Duration) *Service {
	within := func() time.Duration { return settings().Within }
	return &Service{
		Memory: NewMemory(DefaultEntries, DefaultBytes, within, clock), settings: settings, clock: clock,
		metrics: newMetrics(names), given: map[string]int{},
	}
}

// On reports whether scores are taken at all.
func (s *Service) On() bool { return s.settings().Within > 0 }

// Score takes the score of an answer of the owner's, by the ID of the answer or of its request. The
// error says why it is refused.
func (s *Service) Score(owner, id string, score float64) (Label, error) {
	l, err := s.score(owner, id, score)
	s.metrics.taken(&l, err)
	return l, err
}

func (s *Service) score(owner, id string, score float64) (Label, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock(); now-s.since >= time.Hour {
		s.since = now
		clear(s.given)
	}
	if s.given[owner] >= s.settings().PerKey || len(s.pending) >= mostPending {
		return Label{}, ErrTooMany
	}
	l, err := s.Memory.Score(owner, id, score)
	if err == nil {
		s.given[owner]++ // of as many owners as there are requests remembered
		s.pending = append(s.pending, l)
	}
	return l, err
}

// Add takes a score that the router has found for an answer.
func (s *Service) Add(l Label) {
	l.Own = true
	s.mu.Lock()
	defer s.mu.Unlock()
	outcome := tooMany
	if len(s.pending) < mostPending {
		outcome = taken
		s.pending = append(s.pending, l)
	}
	s.metrics.labels.WithLabelValues(shadow, outcome).Inc()
}

// Again returns when a key may give scores again that has given too many.
func (s *Service) Again() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since + time.Hour - s.clock()
}

// Take returns the scores since the last call.
func (s *Service) Take() []Label {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.pending
	s.pending = nil
	return taken
}
