// Package statefile is the file that a controller keeps its state in: of failover, or of versions. It
// is held open for as long as the controller runs, so that two controllers never drive the same engines.
package statefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// form is the version of what is written.
const form = 1

// patience is how long Open waits for a controller that is ending.
const patience = 100 * time.Millisecond

var (
	formKey  = []byte("form")
	termKey  = []byte("term")
	stateKey = []byte("state")
)

// ErrHeld is the error of a file that another controller holds.
var ErrHeld = errors.New("another controller holds it; stop that one first, or give this one a file of its own")

// File is an open state file. Its methods may be called from any goroutine.
type File struct {
	db   *bbolt.DB
	kind string
	path string
	term uint64
	last []byte // state of the run before
}

// Open opens the file of a kind of controller, such as failover, or makes it, and begins a term: one
// more than the last, and at least [FirstTerm], so that epochs do not run back when a file is lost.
func Open(kind, path string, now time.Time) (*File, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: patience})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("cannot open the %s state file %s: %w", kind, path, ErrHeld)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, fmt.Errorf("cannot open the %s state file %s: it is no such file, or is damaged (%w); move it away to begin without it", kind, path, err)
	case err != nil:
		return nil, fmt.Errorf("cannot open the %s state file: %w", kind, err)
	}
	f := &File{db: db, kind: kind, path: path}
	if err := db.Update(func(tx *bbolt.Tx) error { return f.begin(tx, FirstTerm(now)) }); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot begin with the %s state file %s: %w", kind, path, err), db.Close())
	}
	return f, nil
}

// zero is when terms begin to be counted: they fit 31 bits for a lifetime.
var zero = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// FirstTerm is the term of a controller that begins now and has no file: the seconds since 2025.
func FirstTerm(now time.Time) uint64 { return uint64(max(1, int64(now.Sub(zero)/time.Second))) }

func (f *File) begin(tx *bbolt.Tx, least uint64) error {
	b, err := tx.CreateBucketIfNotExists([]byte(f.kind))
	if err != nil {
		return err
	}
	if n := number(b.Get(formKey)); n > form {
		return fmt.Errorf("it is of form %d and this program knows %d; run the version that wrote it, or a newer one", n, form)
	}
	f.term = max(least, number(b.Get(termKey))+1)
	if text := b.Get(stateKey); text != nil {
		f.last = append([]byte(nil), text...)
	}
	return errors.Join(b.Put(formKey, bytesOf(form)), b.Put(termKey, bytesOf(f.term)))
}

// Term is the number of this run.
func (f *File) Term() uint64 { return f.term }

// Path is where the file is.
func (f *File) Path() string { return f.path }

// Last is the state that the run before has left; nil if there is none.
func (f *File) Last() []byte { return f.last }

// Save replaces the state, and returns once it is on the disk.
func (f *File) Save(state []byte) error {
	err := f.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(f.kind)).Put(stateKey, state) })
	if err != nil {
		return fmt.Errorf("cannot write the %s state file %s: %w", f.kind, f.path, err)
	}
	return nil
}

// Close lets another controller have the file.
func (f *File) Close() error { return f.db.Close() }

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func bytesOf(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
