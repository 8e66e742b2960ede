package experience

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Store writes rows in the background. Its methods may be called from any
// goroutine, and none but Close waits.
type Store struct {
	config Config
	header Header
	seed   uint64 // of what is sampled
	log    *slog.Logger
	files  *files
	pool   sync.Pool // of *Row

	mu     sync.RWMutex // protects the two below, and rows from being closed while in use
	begun  bool
	closed bool
	rows   chan *Row
	ended  chan struct{} // closed when the writer has returned

	written, dropped atomic.Uint64
	failing          bool // the writer's: the latest write failed
	warned           atomic.Bool
}

// Stats counts the rows so far.
type Stats struct{ Written, Dropped uint64 }

// New is a run's log under the header, whose version, run, beginning and sample it
// fills in. Nothing is on disk before Begin; rows wait for it. The caller closes
// the store.
func New(c Config, h Header, log *slog.Logger) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cannot log experience: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var run [8]byte
	_, _ = rand.Read(run[:]) // never fails
	h.Version, h.Run, h.Began, h.Sample = Version, hex.EncodeToString(run[:]), time.Now().UTC(), c.Sample
	first, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("cannot log experience: %w", err)
	}
	s := &Store{
		config: c, header: h, log: log, seed: seedOf(h.Run),
		files: &files{path: c.Path, most: int64(c.MaxSizeMiB) << 20, keep: c.MaxFiles, header: append(first, '\n'), now: time.Now, create: create},
		rows:  make(chan *Row, c.Buffer), ended: make(chan struct{}),
	}
	s.pool.New = func() any { return new(Row) }
	return s, nil
}

// Begin begins the file, and is called once. One that is there already is kept under
// another name. An error says that the path is none for a log; a disk that is full or
// fails is none: rows are dropped, as later on, until it works again.
func (s *Store) Begin() error {
	if err := s.files.open(); ofDisk(err) {
		s.lost(0, err)
	} else if err != nil {
		return fmt.Errorf("cannot log experience: %w", err)
	}
	s.mu.Lock()
	s.begun = true
	s.mu.Unlock()
	go s.write()
	return nil
}

// seedOf makes a run's sample its own.
func seedOf(run string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(run)) // never fails
	return h.Sum64()
}

// Sampled says whether the run's request of that number is to be logged.
func (s *Store) Sampled(id uint64) bool { return s.config.sampled(id, s.seed) }

// Row is an empty row, to be filled in and then given to Add or Discard.
func (s *Store) Row() *Row { return s.pool.Get().(*Row) }

// Discard takes a row back that is not to be written.
func (s *Store) Discard(r *Row) { s.pool.Put(r) }

// Add takes the row to be written. If too many wait already, or the store is
// closed, it is dropped and counted.
func (s *Store) Add(r *Row) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.closed {
		select {
		case s.rows <- r:
			return
		default:
		}
	}
	s.Drop(r)
}

// Drop counts a row as dropped, which somebody had no room for.
func (s *Store) Drop(r *Row) {
	s.dropped.Add(1)
	s.pool.Put(r)
	if !s.warned.Swap(true) {
		s.log.Warn("experience is dropped: rows come faster than they can be written", "path", s.config.Path, "buffer", s.config.Buffer)
	}
}

// Stats counts the rows so far.
func (s *Store) Stats() Stats { return Stats{s.written.Load(), s.dropped.Load()} }

// closing bounds the time to write what waits at the end, which may be to a disk that hangs.
const closing = 2 * time.Second

// Close writes what waits and closes the file, within a short time. What waits in a store
// that has not begun is gone.
func (s *Store) Close() error {
	s.mu.Lock()
	begun, again := s.begun, s.closed
	if s.closed = true; !again {
		close(s.rows)
	}
	s.mu.Unlock()
	if !begun {
		return nil
	}
	late := time.NewTimer(closing)
	defer late.Stop()
	select {
	case <-s.ended:
	case <-late.C:
		return fmt.Errorf("cannot write to %s: up to %d waiting rows are lost", s.config.Path, len(s.rows)+1)
	}
	if again {
		return nil
	}
	n := s.Stats()
	level := slog.LevelInfo
	if n.Dropped > 0 {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "experience logged", "path", s.config.Path, "rows", n.Written, "dropped", n.Dropped)
	return s.files.close()
}

// chunk is about how many bytes are written at a time, under load.
const chunk = 64 << 10

// write is the writer: whole lines, as soon as none waits or there is a chunk.
func (s *Store) write() {
	defer close(s.ended)
	var text []byte
	var lines uint64
	for r := range s.rows {
		line, err := s.encode(r)
		s.pool.Put(r)
		if err != nil {
			s.lost(1, err)
			continue
		}
		text, lines = append(text, line...), lines+1
		if len(s.rows) > 0 && len(text) < chunk {
			continue
		}
		s.flush(text, lines)
		text, lines = text[:0], 0
	}
	if lines > 0 { // the last row could not be encoded
		s.flush(text, lines)
	}
}

// encode is the row's line. The error is of a number that is not finite.
func (s *Store) encode(r *Row) ([]byte, error) {
	line, err := json.Marshal(s.header.written(r))
	return append(line, '\n'), err
}

// ofDisk reports whether the error may pass without a change of the path.
func ofDisk(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ESTALE, syscall.ETIMEDOUT},
		func(passing error) bool { return errors.Is(err, passing) })
}

func (s *Store) flush(text []byte, lines uint64) {
	if err := s.files.write(text); err != nil {
		s.lost(lines, err)
		return
	}
	s.written.Add(lines)
	if s.failing {
		s.failing = false
		s.log.Info("experience can be written again", "path", s.config.Path)
	}
}

// lost counts rows that could not be written, and says so once.
func (s *Store) lost(lines uint64, err error) {
	s.dropped.Add(lines)
	if !s.failing {
		s.failing = true
		s.log.Error("cannot write experience; rows are dropped until it works again", "path", s.config.Path, "error", err)
	}
}
