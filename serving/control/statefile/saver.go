package statefile

import "sync"

// Saver writes states one after another, so that a controller does not wait for the disk. What was
// not begun when a newer state comes is left out.
type Saver[T any] struct {
	write func(T)
	wake  chan struct{}
	done  sync.WaitGroup

	mu     sync.Mutex // protects what follows
	next   *T
	closed bool
}

// NewSaver starts a Saver that has write called with each state, until [Saver.Close].
func NewSaver[T any](write func(T)) *Saver[T] {
	s := &Saver[T]{write: write, wake: make(chan struct{}, 1)}
	s.done.Go(s.run)
	return s
}

// Keep has the state be written, and does not wait for that.
func (s *Saver[T]) Keep(state T) {
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

// take is what is to be written next; nil if nothing is.
func (s *Saver[T]) take() (state *T, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, s.next = s.next, nil
	return state, s.closed
}

func (s *Saver[T]) run() {
	for range s.wake {
		state, closed := s.take()
		if closed {
			return
		}
		if state != nil {
			s.write(*state)
		}
	}
}

// Close ends the Saver, once it has written what it is at.
func (s *Saver[T]) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.nudge()
	s.done.Wait()
}
