package states

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"sync"
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

// File is a [Store] in a file of bbolt, with a bucket for each kind of controllers. The file is held while a state
// in it is open, so that two processes never drive the same engines.
type File struct {
	path string

	mu      sync.Mutex // protects what follows
	db      *bbolt.DB  // nil while no state is open
	file    *os.File   // of the database
	trouble string
	open    []string // kinds of the states that are open
}

// At returns the file of a path, which is opened, or made, with the first state in it.
func At(path string) *File { return &File{path: path} }

// Open implements [Store].
func (f *File) Open(kind string, now time.Time) (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := &kept{file: f, kind: kind}
	if slices.Contains(f.open, kind) {
		return nil, k.held()
	}
	panicked, err := durable.Guard(func() error { return k.begin(FirstTerm(now)) })
	switch {
	case panicked != nil:
		// bbolt's own locks may be held for ever, so that its Close would wait for ever.
		if f.file != nil {
			_ = f.file.Close()
		}
		f.db, err = nil, k.damaged(fmt.Errorf("%v", panicked))
	case err != nil && len(f.open) == 0 && f.db != nil:
		err = errors.Join(err, f.db.Close())
		f.db = nil
	}
	if err != nil {
		return nil, err
	}
	f.open = append(f.open, kind)
	return k, nil
}

// kept is the state of a kind of controllers in a file. It implements [State].
type kept struct {
	file    *File
	kind    string
	term    uint64
	last    []byte
	trouble string
}

// begin opens the database unless it is open, and begins the term.
func (k *kept) begin(least uint64) error {
	if k.file.db == nil {
		if err := k.openDB(); err != nil {
			return err
		}
	}
	k.trouble = k.file.trouble
	if err := k.file.db.View(func(tx *bbolt.Tx) error { return k.read(tx, least) }); err != nil {
		return err
	}
	if err := k.write(k.last); err != nil {
		k.trouble = strings.TrimPrefix(k.trouble+"; ", "; ") + "it cannot be written now: " + err.Error()
	}
	return nil
}

func (k *kept) openDB() error {
	f := k.file
	options := &bbolt.Options{Timeout: patience, OpenFile: func(name string, flag int, mode os.FileMode) (opened *os.File, err error) {
		f.file, err = openFile(name, flag, mode)
		return f.file, err
	}}
	db, err := bbolt.Open(f.path, 0o600, options)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return k.held()
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return k.damaged(err)
	case err != nil:
		return fmt.Errorf("cannot open the %s state file: %w", k.kind, err)
	}
	f.db = db
	if err := durable.Verify(db, f.file); err != nil {
		return k.damaged(err)
	}
	f.trouble = durable.Lost(f.file, db.Info().PageSize, "the state", "the last changes to it")
	return nil
}

// held is the error of a state that another controller has open.
func (k *kept) held() error {
	return fmt.Errorf("cannot open the %s state file %s: %w", k.kind, k.file.path, ErrHeld)
}

// damaged is the error of a file whose bytes are not those of a state file.
func (k *kept) damaged(why error) error {
	return fmt.Errorf("cannot open the %s state file %s: it is no such file, or is damaged (%w); move it away to begin without it", k.kind, k.file.path, why)
}

// read takes what the run before has left.
func (k *kept) read(tx *bbolt.Tx, least uint64) error {
	k.term = least
	found := tx.ID() <= newFile
	if err := tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		if found = slices.Contains(kinds, string(name)); !found {
			return fmt.Errorf("it holds %q, which is no state", name)
		}
		return nil
	}); err != nil || !found {
		return k.damaged(cmp.Or(err, errors.New("it holds no state")))
	}
	b := tx.Bucket([]byte(k.kind))
	if b == nil {
		return nil
	}
	entries := map[string][]byte{}
	if err := b.ForEach(func(key, value []byte) error { entries[string(key)] = bytes.Clone(value); return nil }); err != nil {
		return k.damaged(err)
	}
	if n := number(entries[formKey]); n > form {
		return fmt.Errorf("cannot begin with the %s state file %s: it is of form %d and this program knows %d; run the version that wrote it, or a newer one", k.kind, k.file.path, n, form)
	}
	term := number(entries[termKey])
	k.term, k.last = max(least, term+1), entries[stateKey]
	if sum := entries[sumKey]; bytes.HasPrefix(sum, bytesOf(term)) && !bytes.Equal(sum, sumOf(term, k.last)) {
		return k.damaged(errors.New("the state is not what was written"))
	}
	for _, key := range []string{formKey, termKey, stateKey, sumKey} {
		delete(entries, key)
	}
	if len(entries) > 0 {
		return k.damaged(errors.New("it has entries that no version writes"))
	}
	return nil
}

// write replaces the state, if there is one, and the term.
func (k *kept) write(state []byte) error {
	return k.file.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(k.kind))
		if err != nil {
			return err
		}
		if state != nil {
			err = b.Put([]byte(stateKey), state)
		}
		return errors.Join(err, b.Put([]byte(formKey), bytesOf(form)), b.Put([]byte(termKey), bytesOf(k.term)), b.Put([]byte(sumKey), sumOf(k.term, state)))
	})
}

// sumOf is a term, and the checksum of the state that is written in it.
func sumOf(term uint64, state []byte) []byte {
	return binary.BigEndian.AppendUint32(bytesOf(term), crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli)))
}

// Term, Path, Last and Trouble implement [State].
func (k *kept) Term() uint64    { return k.term }
func (k *kept) Path() string    { return k.file.path }
func (k *kept) Last() []byte    { return k.last }
func (k *kept) Trouble() string { return k.trouble }

// Save implements [State].
func (k *kept) Save(state []byte) error {
	k.file.mu.Lock()
	defer k.file.mu.Unlock()
	err := errors.New("it is closed")
	if k.file.db != nil {
		err = k.write(state)
	}
	if err != nil {
		return fmt.Errorf("cannot write the %s state file %s: %w", k.kind, k.file.path, err)
	}
	return nil
}

// Close implements [State]. The file is closed with the last state that is open in it.
func (k *kept) Close() error {
	f := k.file
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = slices.DeleteFunc(f.open, func(kind string) bool { return kind == k.kind })
	if len(f.open) > 0 || f.db == nil {
		return nil
	}
	db := f.db
	f.db = nil
	return db.Close()
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func bytesOf(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
