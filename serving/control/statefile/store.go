package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Store keeps the states of a controller in its file, one after another, so that the controller does not wait
// for the disk: what was not begun when a newer state comes is left out. A nil Store keeps nothing.
type Store[T any] struct {
	*File
	written func(T, error)
	wake    chan struct{}
	done    sync.WaitGroup

	mu     sync.Mutex // protects what follows
	next   *T
	closed bool
}

// OpenStore opens the file of a kind of controllers, and returns the state that an earlier run has left; nil if
// none has. The Store of an empty path is nil.
func OpenStore[T any](kind, path string, now time.Time) (s *Store[T], last *T, err error) {
	if path == "" {
		return nil, nil, nil
	}
	file, err := Open(kind, path, now)
	if err != nil {
		return nil, nil, err
	}
	s = &Store[T]{File: file, wake: make(chan struct{}, 1)}
	if file.Last() == nil {
		return s, nil, nil
	}
	last = new(T)
	if err := json.Unmarshal(file.Last(), last); err != nil {
		err = fmt.Errorf("cannot read the %s state file %s: %w; move it away to begin without it", kind, path, err)
		return nil, nil, errors.Join(err, file.Close())
	}
	return s, last, nil
}

// Begin has what is kept be written, until [Store.Close]. Written is called after each state, with why that has
// failed.
func (s *Store[T]) Begin(log *slog.Logger, written func(T, error)) {
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

func (s *Store[T]) save(state T) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return s.Save(text)
}

// Keep has the state be written, and does not wait for that.
func (s *Store[T]) Keep(state T) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.next = &state
	s.mu.Unlock()
	s.nudge()
}

func (s *Store[T]) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look
	}
}

// Close writes the last state, if the Store has begun, and lets another controller have the file.
func (s *Store[T]) Close(last func() T) error {
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
		err = s.save(last())
	}
	return errors.Join(err, s.File.Close())
}
