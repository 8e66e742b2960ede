package checkpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"gearshift/internal/durable"
)

// growth is by how much a store of some size grows at once. bbolt's own 16 MiB
// would dwarf most stores.
const growth = 1 << 20

// The buckets of a store.
var (
	indexBucket    = []byte("index")    // indexKey → the sealed index
	policiesBucket = []byte("policies") // blobKey → an encoded checkpoint; see also kind
	trainingBucket = []byte("training") // chunkKey → a piece of a run's progress
	indexKey       = []byte("index")
)

// tx is one transaction on a store. Its byte slices die with it.
type tx struct {
	index    *index
	at       *bbolt.Bucket // of the index
	policies *bbolt.Bucket // or of what else is stored by name and version
	training *bbolt.Bucket // nil where that is not policies
	root     *bbolt.Tx
}

// view runs op on the store as it is. No store is ErrNotFound.
func (s *Store) view(op func(*tx) error) error {
	if err := s.exists(); err != nil {
		return err
	}
	return s.open(false, s.timeout(), func(db *bbolt.DB, file *os.File) error {
		if err := s.look(db, file); err != nil {
			return err
		}
		return db.View(func(b *bbolt.Tx) error {
			t, err := s.begin(b)
			if err != nil {
				return err
			}
			return op(t)
		})
	})
}

// look warns of a damaged meta page, which the next write covers up, and verifies the file.
func (s *Store) look(db *bbolt.DB, file *os.File) error {
	s.warn(lost(file, db.Info().PageSize))
	return s.verify(db, file)
}

// verify walks the pages of the store.
func (s *Store) verify(db *bbolt.DB, file *os.File) error {
	if err := durable.Verify(db, file); err != nil {
		return s.corrupted(err.Error())
	}
	return nil
}

// update runs op and stores what it did, all of it or nothing. No store is
// ErrNotFound.
func (s *Store) update(op func(*tx) error) error {
	if err := s.exists(); err != nil {
		return err
	}
	deadline := time.Now().Add(s.timeout())
	// bbolt trusts what it opens for writing, and writes by it. What a writer
	// leaves behind is sound, so that one which comes between does no harm.
	if err := s.open(false, s.timeout(), s.look); err != nil {
		return err
	}
	return s.open(true, max(time.Until(deadline), 1), func(db *bbolt.DB, _ *os.File) error {
		db.AllocSize = growth
		prepared := false
		err := db.Update(func(b *bbolt.Tx) error {
			t, err := s.begin(b)
			if err != nil {
				return err
			}
			if err := op(t); err != nil {
				return err
			}
			prepared = true
			return t.finish()
		})
		if err != nil && prepared {
			return fmt.Errorf("cannot write store %s: %w", s.Path, err)
		}
		return err
	})
}

// begin reads the index.
func (s *Store) begin(b *bbolt.Tx) (*tx, error) {
	t := &tx{at: b.Bucket(indexBucket), policies: b.Bucket(policiesBucket), training: b.Bucket(trainingBucket), root: b}
	if t.at == nil || t.policies == nil || t.training == nil {
		return nil, s.corrupted("it does not hold what a checkpoint store holds")
	}
	if bucket := s.stored().bucket; bucket != nil {
		return s.beginIn(b, bucket)
	}
	return s.readIndex(t, t.at.Get(indexKey))
}

// beginIn reads the index of what is stored in a bucket of its own, which a store has once
// something was put there.
func (s *Store) beginIn(b *bbolt.Tx, name []byte) (*tx, error) {
	t := &tx{at: b.Bucket(name), root: b}
	if t.at == nil && b.Writable() {
		at, err := b.CreateBucket(name)
		if err != nil {
			return nil, s.corrupted(err.Error())
		}
		t.at = at
	}
	if t.policies = t.at; t.at == nil {
		t.index = newIndex()
		return t, nil
	}
	data := t.at.Get(indexKey)
	if data == nil { // only the key so far
		t.index = newIndex()
		return t, nil
	}
	return s.readIndex(t, data)
}

// readIndex gives the transaction the index that is encoded in data.
func (s *Store) readIndex(t *tx, data []byte) (*tx, error) {
	if data == nil {
		return nil, s.corrupted("its index is missing")
	}
	x, err := unmarshalIndex(data)
	if errors.Is(err, ErrNewerFormat) {
		return nil, fmt.Errorf("cannot read store %s: %w", s.Path, err)
	}
	if err != nil {
		return nil, s.corrupted(err.Error())
	}
	t.index = x
	return t, nil
}

// finish writes the index.
func (t *tx) finish() error {
	data, err := t.index.marshal()
	if err != nil {
		return err
	}
	return t.at.Put(indexKey, data)
}

// exists reports a store that is missing, or cannot be one.
func (s *Store) exists() error {
	info, err := os.Stat(s.Path)
	empty := err == nil && info.Mode().IsRegular() && info.Size() == 0
	if empty {
		s.warn("the file is empty, 0 bytes; what it held, if anything, is lost. Restore a backup, or remove it")
	}
	switch {
	case empty, errors.Is(err, fs.ErrNotExist):
		return &fault{ErrNotFound, fmt.Sprintf("no checkpoint store at %s; %s makes one", s.Path, s.stored().maker)}
	case err != nil:
		return fmt.Errorf("cannot open store: %w", err)
	case !info.Mode().IsRegular():
		return s.corrupted("it is not a regular file")
	}
	return nil
}

// open opens the database, runs op on it and closes it. Whatever bbolt makes of
// a damaged file becomes an error.
func (s *Store) open(write bool, wait time.Duration, op func(*bbolt.DB, *os.File) error) error {
	var file *os.File
	options := &bbolt.Options{
		Timeout: wait, ReadOnly: !write, NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			f, err = os.OpenFile(name, flag, mode)
			file = f
			return f, err
		},
	}
	deadline := time.Now().Add(wait)
	panicked, err := durable.Guard(func() error {
		for {
			db, err := bbolt.Open(s.Path, 0o600, options)
			if err != nil {
				return s.openError(err)
			}
			if !s.replaced(file) || time.Now().After(deadline) {
				return errors.Join(op(db, file), db.Close())
			}
			if err := db.Close(); err != nil {
				return err
			}
			time.Sleep(retryAfter)
		}
	})
	if panicked != nil {
		// bbolt's own locks may be held for ever, so that its Close would wait
		// for ever. The lock of the file must not outlive the call; the map of
		// it does, until the process ends.
		if file != nil {
			unlock(file)
			_ = file.Close()
		}
		return s.corrupted(fmt.Sprint(panicked))
	}
	return err
}

// openError says why bbolt did not open the file.
func (s *Store) openError(err error) error {
	var system *fs.PathError
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return &fault{ErrLocked, fmt.Sprintf("store %s is locked by another process (waited %v); try again when that has finished, or use another store",
			s.Path, s.timeout())}
	case errors.As(err, &system):
		return fmt.Errorf("cannot open store: %w", err)
	}
	return s.corrupted(err.Error())
}

// corrupted is the error for a file that is not, or no longer, a store.
func (s *Store) corrupted(why string) error {
	return &fault{ErrCorrupted, fmt.Sprintf("store %s is corrupted, or no checkpoint store: %s; move it away or restore a copy", s.Path, why)}
}

// create makes an empty store where there is no file. It appears at its path
// whole: a reader meanwhile, or a process after a kill, sees none.
func (s *Store) create() error {
	if err := s.exists(); !errors.Is(err, ErrNotFound) {
		return err
	}
	f, err := s.beside()
	if err != nil {
		return err
	}
	born := &Store{Path: f.Name()}
	defer os.Remove(born.Path)
	if err := errors.Join(f.Close(), born.open(true, born.timeout(), initialise)); err != nil {
		return fmt.Errorf("cannot create store %s: %w", s.Path, err)
	}
	return s.adopt(born.Path)
}

// beside opens an empty file in the store's folder, of mode 0600.
func (s *Store) beside() (*os.File, error) {
	if s.Path == "" {
		return nil, errors.New("cannot create store: it has no name")
	}
	f, err := durable.Beside(s.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot create store %s: %w", s.Path, err)
	}
	return f, nil
}

// Writable reports whether the store can be written, or made where there is none, before
// what it is to hold has taken its time.
func (s *Store) Writable() error {
	err := s.exists()
	if errors.Is(err, ErrNotFound) {
		f, err := s.beside()
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.Path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot write store: %w", err)
	}
	return f.Close()
}

// adopt moves a finished store to s.Path, unless another process was quicker.
func (s *Store) adopt(finished string) error {
	err := os.Link(finished, s.Path)
	switch {
	case err == nil:
		err = durable.Folder(filepath.Dir(s.Path))
	case errors.Is(err, fs.ErrExist) && s.exists() == nil:
		return nil
	default: // an empty file is in the way, or the file system has no hard links
		err = durable.Rename(finished, s.Path)
	}
	if err != nil {
		return fmt.Errorf("cannot create store: %w", err)
	}
	return nil
}

// initialise makes an empty database an empty store.
func initialise(db *bbolt.DB, _ *os.File) error {
	return db.Update(func(b *bbolt.Tx) error {
		for _, name := range [][]byte{policiesBucket, trainingBucket} {
			if _, err := b.CreateBucket(name); err != nil {
				return err
			}
		}
		at, err := b.CreateBucket(indexBucket)
		if err != nil {
			return err
		}
		data, err := newIndex().marshal()
		if err != nil {
			return err
		}
		return at.Put(indexKey, data)
	})
}
