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

// file is the [medium] of a store in a file of bbolt.
type file struct{ *Store }

// boltTx gives access to the buckets of a bbolt transaction.
type boltTx struct{ *bbolt.Tx }

func (r boltTx) bucket(name []byte) bucket {
	if b := r.Bucket(name); b != nil {
		return b
	}
	return nil
}

func (r boltTx) create(name []byte) (bucket, error) { return r.CreateBucketIfNotExists(name) }
func (r boltTx) writable() bool                     { return r.Writable() }

// view implements [medium].
func (s file) view(op func(buckets) error) error {
	if err := s.exists(); err != nil {
		return err
	}
	return s.open(false, s.timeout(), func(db *bbolt.DB, file *os.File) error {
		if err := s.look(db, file); err != nil {
			return err
		}
		return db.View(func(b *bbolt.Tx) error { return op(boltTx{b}) })
	})
}

// look warns of a damaged meta page, which the next write covers up, and verifies the file.
func (s file) look(db *bbolt.DB, file *os.File) error {
	s.warn(lost(file, db.Info().PageSize))
	return s.verify(db, file)
}

// verify walks the pages of the store.
func (s file) verify(db *bbolt.DB, file *os.File) error {
	if err := durable.Verify(db, file); err != nil {
		return s.corrupted(err.Error())
	}
	return nil
}

// update implements [medium].
func (s file) update(op func(buckets) error) error {
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
			err := op(boltTx{b})
			prepared = err == nil
			return err
		})
		if err != nil && prepared {
			return fmt.Errorf("cannot write store %s: %w", s.Path, err)
		}
		return err
	})
}

// exists reports a store that is missing, or cannot be one.
func (s file) exists() error {
	info, err := os.Stat(s.Path)
	empty := err == nil && info.Mode().IsRegular() && info.Size() == 0
	if empty {
		s.warn("the file is empty, 0 bytes; what it held, if anything, is lost. Restore a backup, or remove it")
	}
	switch {
	case empty, errors.Is(err, fs.ErrNotExist):
		return s.missing()
	case err != nil:
		return fmt.Errorf("cannot open store: %w", err)
	case !info.Mode().IsRegular():
		return s.corrupted("it is not a regular file")
	}
	return nil
}

// open opens the database, runs op on it and closes it. Whatever bbolt makes of
// a damaged file becomes an error.
func (s file) open(write bool, wait time.Duration, op func(*bbolt.DB, *os.File) error) error {
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
func (s file) openError(err error) error {
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

// create implements [medium]. The file appears at its path whole, and not at all after a kill.
func (s file) create() error {
	if err := s.exists(); !errors.Is(err, ErrNotFound) {
		return err
	}
	f, err := s.beside()
	if err != nil {
		return err
	}
	born := file{&Store{Path: f.Name()}}
	defer os.Remove(born.Path)
	if err := errors.Join(f.Close(), born.open(true, born.timeout(), func(db *bbolt.DB, _ *os.File) error { return db.Update(initialise) })); err != nil {
		return fmt.Errorf("cannot create store %s: %w", s.Path, err)
	}
	return s.adopt(born.Path)
}

// beside opens an empty file in the store's folder, of mode 0600.
func (s file) beside() (*os.File, error) {
	if s.Path == "" {
		return nil, errors.New("cannot create store: it has no name")
	}
	f, err := durable.Beside(s.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot create store %s: %w", s.Path, err)
	}
	return f, nil
}

// canWrite implements [medium].
func (s file) canWrite() error {
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
func (s file) adopt(finished string) error {
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
func initialise(b *bbolt.Tx) error { return empty(boltTx{b}) }
