package states

import (
	"bytes"
	"cmp"
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
	saving  sync.Mutex // held from taking a state to having saved it, or put it back

	mu     sync.Mutex // protects what follows
	next   *T
	closed bool
}

// A state that cannot be saved is retried after firstRetry, a quarter of the usual lease in etcd, so that a router that
// keeps acting through a fault of etcd saves it. The wait doubles up to lastRetry, as each failure is logged.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = time.Minute
)

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

// Follow calls f with each [Turn] of a [Shared] state, and the state, except where another router has saved one that f
// has followed already. It never calls f for a state of one router.
func (s *Saver[T]) Follow(f func(t Turn, last *T) error) {
	if s == nil {
		return
	}
	shared, ok := s.State.(Shared)
	if !ok {
		return
	}
	var followed []byte // the last state, while another router acts
	shared.Follow(func(t Turn) error {
		if !t.Acts && t.Last != nil && bytes.Equal(t.Last, followed) {
			return nil // the state of other controllers has changed
		}
		followed = nil
		if t.Acts { // what an earlier turn has left must not replace the state from which this one begins
			s.saving.Lock()
			s.put(nil)
			s.saving.Unlock()
		}
		last, err := s.decode(t.Last)
		if err != nil {
			return err
		}
		if err = f(t, last); err == nil && !t.Acts {
			followed = t.Last
		}
		return err
	})
}

// Begin writes what is kept, until [Saver.Close]. It calls written after each try, with the error of one that failed.
// Unless another router acts, it tries a failed state again until a newer one comes.
func (s *Saver[T]) Begin(log *slog.Logger, written func(T, error)) {
	if s == nil {
		return
	}
	if s.Trouble() != "" {
		log.Warn("the "+s.kind+" state file is not as it should be", "state", s.Path(), "trouble", s.Trouble())
	}
	s.written = written
	s.done.Go(s.run)
}

// run saves each state that comes, and again while that fails.
func (s *Saver[T]) run() {
	var retry <-chan time.Time
	var pause time.Duration
	for {
		select {
		case <-s.wake:
			pause = firstRetry
		case <-retry:
			pause = min(2*pause, lastRetry)
		}
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
		retry = nil
		state, err := s.saveNext()
		if state == nil {
			continue
		}
		if err != nil && !errors.Is(err, ErrStandsBy) {
			retry = time.After(pause)
		}
		s.written(*state, err)
	}
}

// saveNext saves the next state and returns it; nil if there is none. A state that failed is the next again, unless
// another router acts.
func (s *Saver[T]) saveNext() (*T, error) {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	state := s.next
	s.next = nil
	s.mu.Unlock()
	if state == nil {
		return nil, nil
	}
	err := s.save(*state)
	if err != nil && !errors.Is(err, ErrStandsBy) {
		s.mu.Lock()
		s.next = cmp.Or(s.next, state)
		s.mu.Unlock()
	}
	return state, err
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
	s.put(&state)
	s.nudge()
}

// put replaces the next state.
func (s *Saver[T]) put(state *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = state
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
