package states

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Saver keeps the states of a controller in a store, one after another, so that the controller does not wait
// for the disk: what was not begun when a newer state comes is left out. A nil Saver keeps nothing.
type Saver[T any] struct {
	State
	kind    string
	written func(T, error)
	wake    chan struct{}
	done    sync.WaitGroup

	mu     sync.Mutex // protects what follows
	next   *T
	closed bool
}

// Open opens the state of a kind of controllers, and returns what an earlier run has left; nil if none has. The
// Saver of a nil Store is nil.
func Open[T any](store Store, kind string, now time.Time) (s *Saver[T], last *T, err error) {
	if store == nil {
		return nil, nil, nil
	}
	state, err := store.Open(kind, now)
	if err != nil {
		return nil, nil, err
	}
	s = &Saver[T]{State: state, kind: kind, wake: make(chan struct{}, 1)}
	if last, err = s.decode(state.Last()); err != nil {
		return nil, nil, errors.Join(err, state.Close())
	}
	return s, last, nil
}

// decode returns the state that text encodes; nil if it is empty.
func (s *Saver[T]) decode(text []byte) (*T, error) {
	if text == nil {
		return nil, nil
	}
	last := new(T)
	if err := json.Unmarshal(text, last); err != nil {
		return nil, fmt.Errorf("cannot read the %s state file %s: %w; move it away to begin without it", s.kind, s.Path(), err)
	}
	return last, nil
}

// Follow calls f with each [Turn] of a [Shared] state, and the state. It never calls f for a state of one router.
func (s *Saver[T]) Follow(f func(t Turn, last *T) error) {
	if s == nil {
		return
	}
	shared, ok := s.State.(Shared)
	if !ok {
		return
	}
	shared.Follow(func(t Turn) error {
		last, err := s.decode(t.Last)
		if err != nil {
			return err
		}
		return f(t, last)
	})
}

// Begin has what is kept be written, until [Saver.Close]. Written is called after each state, with why that has
// failed.
func (s *Saver[T]) Begin(log *slog.Logger, written func(T, error)) {
	if s == nil {
		return
	}
	if s.Trouble() != "" {
		log.Warn("the "+s.kind+" state file is not as it should be", "state", s.Path(), "trouble", s.Trouble())
	}
	s.written = written
	s.done.Go(func() {
		for range s.wake {
			s.mu.Lock()
			state, closed := s.next, s.closed
			s.next = nil
			s.mu.Unlock()
			if closed {
				return
			}
			if state != nil {
				written(*state, s.save(*state))
			}
		}
	})
}

func (s *Saver[T]) save(state T) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return s.Save(text)
}

// Keep has the state be written, and does not wait for that.
func (s *Saver[T]) Keep(state T) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.next = &state
	s.mu.Unlock()
	s.nudge()
}

func (s *Saver[T]) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look
	}
}

// Close writes the last state, if the Saver has begun, and lets another controller have the file.
func (s *Saver[T]) Close(last func() T) error {
	if s == nil {
		return nil
	}
	var err error
	if s.written != nil {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.nudge()
		s.done.Wait()
		if err = s.save(last()); errors.Is(err, ErrStandsBy) {
			err = nil // the acting router keeps it
		}
	}
	return errors.Join(err, s.State.Close())
}
