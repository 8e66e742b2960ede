package checkpoints

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"gearshift/internal/durable"
	"gearshift/internal/etcd"
)

// Health is the result of [Store.Verify].
type Health struct {
	Policies, Versions, Predictors, Runs, Tables int
	Size                                         int64 // of the file, in bytes
	Transaction                                  uint64
	// Warnings are damage that makes nothing unreadable; Faults are entries that
	// cannot be read.
	Warnings, Faults []string
}

// Verify reads the whole store and checks it against its checksums. It returns an error
// for a store that cannot be read at all. It takes a file's shared lock meanwhile.
func (s *Store) Verify() (h Health, err error) {
	if !s.Shared() {
		return file{s}.health()
	}
	err = (&shared{s}).view(func(root buckets) error {
		t := root.(etcdTx)
		h = Health{Size: t.Size(), Transaction: uint64(t.Revision())}
		return h.all(s, root)
	})
	return h, err
}

// health checks the pages of the file, and what is in them.
func (s file) health() (h Health, err error) {
	if err := s.exists(); err != nil {
		return h, err
	}
	err = s.open(false, s.timeout(), func(db *bbolt.DB, file *os.File) error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		h.Size = info.Size()
		if text := lost(file, db.Info().PageSize); text != "" {
			h.Warnings = append(h.Warnings, text)
		}
		if err := s.verify(db, file); err != nil {
			return err
		}
		return db.View(func(b *bbolt.Tx) error {
			h.Transaction = uint64(b.ID())
			for err := range b.Check() {
				h.Faults = append(h.Faults, "pages: "+err.Error())
			}
			return h.all(s.Store, boltTx{b})
		})
	})
	return h, err
}

// all checks the records of policies and of predictors.
func (h *Health) all(s *Store, root buckets) error {
	t, err := s.begin(root)
	if err != nil {
		return err
	}
	h.content(t)
	p, err := s.Predictors().store.begin(root)
	if err != nil {
		return err
	}
	h.predictors(p)
	return nil
}

// content checks every record against the index, and the other way round.
func (h *Health) content(t *tx) {
	h.Policies = len(t.index.Policies)
	h.Versions = h.versions(policies.noun, t, func(key, data []byte, v version) {
		if v.Rule != "" {
			return
		}
		if _, err := Decode(data); err != nil {
			h.fault("policy %s: %v", key, err)
		}
	})
	h.runs(t)
	h.tables(t.root)
	known := t.index.keys()
	h.orphans("policy", t.policies, known)
	h.orphans("training", t.training, known)
}

// versions checks the records of what is stored by name and version, each further by the
// function, and returns how many there are.
func (h *Health) versions(noun string, t *tx, check func(key, data []byte, v version)) (n int) {
	for _, name := range slices.Sorted(maps.Keys(t.index.Policies)) {
		p := t.index.Policies[name]
		for _, v := range p.Versions {
			n++
			key := blobKey(name, v.Version)
			data := t.policies.Get(key)
			if len(data) != v.Size || Digest(data) != v.Digest {
				h.fault("%s %s: its %d bytes are not the %d that were written", noun, key, len(data), v.Size)
				continue
			}
			check(key, data, v)
		}
		for alias, v := range map[string]int{Production: p.Production, Previous: p.Previous} {
			if v != 0 && p.find(v) < 0 {
				h.fault("%s %s: %s is version %d, which is not there", noun, name, alias, v)
			}
		}
	}
	if name := t.index.Production; name != "" && t.index.Policies[name] == nil {
		h.fault("the %s in production is %s, which is not there", noun, name)
	}
	return n
}

// runs checks the progress of training runs.
func (h *Health) runs(t *tx) {
	for _, name := range slices.Sorted(maps.Keys(t.index.Runs)) {
		r := t.index.Runs[name]
		h.Runs++
		size, sum := 0, crc32.New(castagnoli)
		for i := range r.Chunks {
			piece := t.training.Get(chunkKey(name, i))
			size += len(piece)
			sum.Write(piece)
		}
		if size != r.Size || sum.Sum32() != r.CRC {
			h.fault("training %s: its %d bytes of progress are not the %d that were written", name, size, r.Size)
		}
	}
}

// keys are those of the records that the index knows: a policy's holds an @ and no zero byte,
// a run's a zero byte.
func (x *index) keys() map[string]bool {
	known := map[string]bool{}
	for name, p := range x.Policies {
		for _, v := range p.Versions {
			known[string(blobKey(name, v.Version))] = true
		}
	}
	for name, r := range x.Runs {
		for i := range r.Chunks {
			known[string(chunkKey(name, i))] = true
		}
	}
	return known
}

// unknown are the keys of a bucket's records that are not known.
func unknown(b bucket, known map[string]bool) (keys [][]byte) {
	_ = b.ForEach(func(key, _ []byte) error { // which fails only as the function does
		if !known[string(key)] {
			keys = append(keys, slices.Clone(key))
		}
		return nil
	})
	return keys
}

// orphans warns of records that the index does not know.
func (h *Health) orphans(what string, b bucket, known map[string]bool) {
	if n := len(unknown(b, known)); n > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%d records of kind %s belong to nothing; gearshift store compact leaves them out", n, what))
	}
}

func (h *Health) fault(format string, args ...any) {
	h.Faults = append(h.Faults, fmt.Sprintf(format, args...))
}

// Backup writes a copy of the store, as it is at one moment, to a file that appears whole.
// Others may read the store meanwhile; writers wait. An existing file is
// replaced only by force.
func (s *Store) Backup(to string, force bool) (size int64, err error) {
	if etcd.Is(to) {
		return 0, fmt.Errorf("cannot back up to %s: want a file; %s copies a store into etcd", to, "`gearshift store copy`")
	}
	if err := etcd.Check(to); err != nil {
		return 0, fmt.Errorf("cannot back up: %w", err)
	}
	if at, err := os.Stat(to); err == nil && at.IsDir() {
		return 0, fmt.Errorf("%s is a directory; want a file in it, such as %s", to, filepath.Join(to, filepath.Base(s.Path)))
	}
	if _, err := os.Lstat(to); err == nil && !force {
		return 0, fmt.Errorf("%s already exists; --force replaces it", to)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if s.Shared() {
		return (&shared{s}).backup(to)
	}
	if err := (file{s}).exists(); err != nil {
		return 0, err
	}
	if same(s.Path, to) {
		return 0, fmt.Errorf("cannot back up store %s to itself", s.Path)
	}
	err = s.view(func(t *tx) error {
		return durable.Replace(to, 0o600, func(w io.Writer) error {
			size, err = t.root.(boltTx).WriteTo(w)
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("cannot back up store %s: %w", s.Path, err)
	}
	return size, nil
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// compactTx bounds the transactions of a compaction, in bytes.
const compactTx = 1 << 20

// Compact rewrites the store without the space of removed entries, and replaces the old
// file, which stays until the new one is whole and synced. Other processes wait
// meanwhile. Sizes are in bytes.
func (s *Store) Compact() (before, after int64, err error) {
	if s.Shared() {
		return 0, 0, fmt.Errorf("cannot compact store %s: it is for stores in files; etcd compacts its history (--auto-compaction-retention), and `etcdctl defrag` gives the space back", s.Path)
	}
	return file{s}.compact()
}

// compact does the work of [Store.Compact].
func (s file) compact() (before, after int64, err error) {
	if err := s.exists(); err != nil {
		return 0, 0, err
	}
	path := s.Path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := s.open(false, s.timeout(), s.verify); err != nil {
		return 0, 0, err
	}
	err = s.open(true, s.timeout(), func(db *bbolt.DB, opened *os.File) error {
		info, err := opened.Stat()
		if err != nil {
			return err
		}
		before = info.Size()
		fresh, err := file{&Store{Path: path}}.beside()
		if err != nil {
			return err
		}
		name := fresh.Name()
		defer os.Remove(name)
		if err := errors.Join(fresh.Chmod(info.Mode().Perm()), fresh.Close()); err != nil {
			return err
		}
		copied := file{&Store{Path: name}}
		if err := copied.open(true, s.timeout(), func(to *bbolt.DB, _ *os.File) error {
			return errors.Join(bbolt.Compact(to, db, compactTx), copied.tidy(to), to.Sync())
		}); err != nil {
			return err
		}
		if h, err := copied.Verify(); err != nil || len(h.Faults) > 0 {
			return errors.Join(err, fmt.Errorf("the new file has %d faults; the old one stays", len(h.Faults)))
		}
		if info, err = os.Stat(name); err != nil {
			return err
		}
		after = info.Size()
		return durable.Rename(name, path)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("cannot compact store %s: %w", s.Path, err)
	}
	return before, after, nil
}

// tidy removes the records that the index does not know.
func (s file) tidy(db *bbolt.DB) error {
	return db.Update(func(b *bbolt.Tx) error {
		t, err := s.begin(boltTx{b})
		if err != nil {
			return err
		}
		known := t.index.keys()
		if err := errors.Join(discardUnknown(t.policies, known), discardUnknown(t.training, known)); err != nil {
			return err
		}
		p, err := s.Predictors().store.begin(boltTx{b})
		if err != nil {
			return err
		}
		return discardUnknown(p.at, p.index.predictorKeys())
	})
}

// discardUnknown removes a bucket's records that are not known.
func discardUnknown(b bucket, known map[string]bool) error {
	for _, key := range unknown(b, known) {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// replaced reports whether the file which was opened is no longer the one at the path, as after
// another process's [Store.Compact]: what is written to it would be lost.
func (s file) replaced(file *os.File) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(s.Path)
	return err == nil && !os.SameFile(open, there)
}

// retryAfter is the wait before a store that was replaced is opened again.
const retryAfter = time.Millisecond
