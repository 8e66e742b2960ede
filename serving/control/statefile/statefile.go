// Package statefile is the file that a controller keeps its state in: of failover, or of versions. It
// is held open for as long as the controller runs, so that two controllers never drive the same engines.
package statefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"gearshift/internal/durable"
)

// form is the version of what is written.
const form = 1

// newFile is the number of the transaction that bbolt makes a file with.
const newFile = 1

// patience is how long Open waits for a controller that is ending.
const patience = 100 * time.Millisecond

// The keys of a file. The sum is of a term and the state that was written in it: another term has been
// written by a version that has no sums.
const (
	formKey  = "form"
	termKey  = "term"
	stateKey = "state"
	sumKey   = "sum"
)

var openFile = os.OpenFile // tests replace it

// ErrHeld is the error of a file that another controller holds.
var ErrHeld = errors.New("another controller holds it; stop that one first, or give this one a file of its own")

// File is an open state file. Its methods may be called from any goroutine.
type File struct {
	db      *bbolt.DB
	kind    string
	path    string
	term    uint64
	last    []byte // state of the run before
	trouble string
}

// Open opens the file of a kind of controller, such as failover, or makes it, and begins a term: one
// more than the last, and at least [FirstTerm], so that epochs do not run back when a file is lost. The
// state of a file that cannot be written is read all the same, see [File.Trouble].
func Open(kind, path string, now time.Time) (*File, error) {
	f := &File{kind: kind, path: path}
	var file *os.File
	panicked, err := durable.Guard(func() error { return f.open(&file, FirstTerm(now)) })
	if panicked != nil {
		// bbolt's own locks may be held for ever, so that its Close would wait for ever.
		if file != nil {
			_ = file.Close()
		}
		err = f.damaged(fmt.Errorf("%v", panicked))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// open opens the database and begins the term.
func (f *File) open(file **os.File, least uint64) error {
	options := &bbolt.Options{Timeout: patience, OpenFile: func(name string, flag int, mode os.FileMode) (opened *os.File, err error) {
		*file, err = openFile(name, flag, mode)
		return *file, err
	}}
	db, err := bbolt.Open(f.path, 0o600, options)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("cannot open the %s state file %s: %w", f.kind, f.path, ErrHeld)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return f.damaged(err)
	case err != nil:
		return fmt.Errorf("cannot open the %s state file: %w", f.kind, err)
	}
	f.db = db
	if err := durable.Verify(db, *file); err != nil {
		return errors.Join(f.damaged(err), db.Close())
	}
	f.trouble = durable.Lost(*file, db.Info().PageSize, "the state", "the last changes to it")
	if err := db.View(func(tx *bbolt.Tx) error { return f.read(tx, least) }); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := f.write(f.last); err != nil {
		f.trouble = strings.TrimPrefix(f.trouble+"; ", "; ") + "it cannot be written now: " + err.Error()
	}
	return nil
}

// damaged is the error of a file whose bytes are not those of a state file.
func (f *File) damaged(why error) error {
	return fmt.Errorf("cannot open the %s state file %s: it is no such file, or is damaged (%w); move it away to begin without it", f.kind, f.path, why)
}

// zero is when terms begin to be counted: they fit 31 bits for a lifetime.
var zero = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// FirstTerm is the term of a controller that begins now and has no file: the seconds since 2025.
func FirstTerm(now time.Time) uint64 { return uint64(max(1, int64(now.Sub(zero)/time.Second))) }

// read takes what the run before has left.
func (f *File) read(tx *bbolt.Tx, least uint64) error {
	f.term = least
	b := tx.Bucket([]byte(f.kind))
	switch {
	case b == nil && tx.ID() > newFile:
		return f.damaged(fmt.Errorf("it holds no %s state", f.kind))
	case b == nil:
		return nil
	}
	entries := map[string][]byte{}
	if err := b.ForEach(func(key, value []byte) error { entries[string(key)] = bytes.Clone(value); return nil }); err != nil {
		return f.damaged(err)
	}
	if n := number(entries[formKey]); n > form {
		return fmt.Errorf("cannot begin with the %s state file %s: it is of form %d and this program knows %d; run the version that wrote it, or a newer one", f.kind, f.path, n, form)
	}
	term := number(entries[termKey])
	f.term, f.last = max(least, term+1), entries[stateKey]
	if sum := entries[sumKey]; bytes.HasPrefix(sum, bytesOf(term)) && !bytes.Equal(sum, sumOf(term, f.last)) {
		return f.damaged(errors.New("the state is not what was written"))
	}
	for _, key := range []string{formKey, termKey, stateKey, sumKey} {
		delete(entries, key)
	}
	if len(entries) > 0 {
		return f.damaged(errors.New("it has entries that no version writes"))
	}
	return nil
}

// write replaces the state, if there is one, and the term.
func (f *File) write(state []byte) error {
	return f.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(f.kind))
		if err != nil {
			return err
		}
		if state != nil {
			err = b.Put([]byte(stateKey), state)
		}
		return errors.Join(err, b.Put([]byte(formKey), bytesOf(form)), b.Put([]byte(termKey), bytesOf(f.term)), b.Put([]byte(sumKey), sumOf(f.term, state)))
	})
}

// sumOf is a term, and the checksum of the state that is written in it.
func sumOf(term uint64, state []byte) []byte {
	return binary.BigEndian.AppendUint32(bytesOf(term), crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli)))
}

// Term is the number of this run.
func (f *File) Term() uint64 { return f.term }

// Path is where the file is.
func (f *File) Path() string { return f.path }

// Last is the state that the run before has left; nil if there is none.
func (f *File) Last() []byte { return f.last }

// Trouble names a fault of the file that has not kept it from opening: a damaged page, so that older
// state is read, or a disk that takes no writes. It is empty without one.
func (f *File) Trouble() string { return f.trouble }

// Save replaces the state, and returns once it is on the disk.
func (f *File) Save(state []byte) error {
	if err := f.write(state); err != nil {
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
