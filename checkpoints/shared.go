package checkpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	records "gearshift/checkpoints/etcd"
	"gearshift/internal/durable"
	"gearshift/internal/etcd"
)

// shared is the [medium] of a store in etcd.
type shared struct{ *Store }

// at returns the records of the store.
func (s *shared) at() (*records.Records, error) {
	address, err := etcd.Parse(s.Path)
	if err != nil {
		return nil, err
	}
	return &records.Records{Address: address, Timeout: s.timeout()}, nil
}

// reported maps an error to the one that a store in a file returns.
func (s *shared) reported(err error) error {
	switch {
	case errors.Is(err, records.ErrNone):
		return s.missing()
	case errors.Is(err, records.ErrForeign):
		return s.corrupted(err.Error())
	case errors.Is(err, records.ErrNewer):
		return &fault{ErrNewerFormat, fmt.Sprintf("cannot read store %s: %v", s.Path, err)}
	case errors.Is(err, records.ErrContended):
		return &fault{ErrLocked, fmt.Sprintf("cannot write store %s: %v (tried for %v); try again later", s.Path, err, s.timeout())}
	}
	return err
}

// etcdTx gives access to the buckets of an etcd transaction.
type etcdTx struct{ *records.Tx }

func (h etcdTx) bucket(name []byte) bucket {
	if b := h.Bucket(string(name)); b != nil {
		return b
	}
	return nil
}

func (h etcdTx) create(name []byte) (bucket, error) { return h.CreateBucket(string(name)), nil }
func (h etcdTx) writable() bool                     { return h.Writable() }

// view implements [medium].
func (s *shared) view(op func(buckets) error) error {
	r, err := s.at()
	if err != nil {
		return err
	}
	return s.reported(r.View(func(t *records.Tx) error { return op(etcdTx{t}) }))
}

// update implements [medium].
func (s *shared) update(op func(buckets) error) error { return s.change(false, op) }

func (s *shared) change(create bool, op func(buckets) error) error {
	r, err := s.at()
	if err != nil {
		return err
	}
	return s.reported(r.Update(create, func(t *records.Tx) error { return op(etcdTx{t}) }))
}

// create implements [medium].
func (s *shared) create() error {
	return s.change(true, func(root buckets) error {
		if root.bucket(indexBucket) != nil { // there is one
			return nil
		}
		return empty(root)
	})
}

// exists returns ErrNotFound if the store does not exist.
func (s *shared) exists() error { return s.view(func(buckets) error { return nil }) }

// canWrite implements [medium].
func (s *shared) canWrite() error {
	if err := s.exists(); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// backup copies the store to a file, which appears whole.
func (s *shared) backup(to string) (size int64, err error) {
	fresh, err := file{&Store{Path: to}}.beside()
	if err != nil {
		return 0, err
	}
	born := file{&Store{Path: fresh.Name(), Timeout: s.Timeout}}
	defer os.Remove(born.Path)
	if err := fresh.Close(); err != nil {
		return 0, err
	}
	err = s.view(func(from buckets) error {
		return born.open(true, s.timeout(), func(db *bbolt.DB, _ *os.File) error {
			return db.Update(func(b *bbolt.Tx) error { return copyBuckets(from, boltTx{b}) })
		})
	})
	if err == nil {
		err = durable.Rename(born.Path, to)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot back up store %s: %w", s.Path, err)
	}
	info, err := os.Stat(to)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// copyBuckets copies all records of a store.
func copyBuckets(from, to buckets) error {
	for _, name := range everyBucket() {
		b := from.bucket(name)
		if b == nil {
			continue
		}
		copied, err := to.create(name)
		if err == nil {
			err = b.ForEach(copied.Put)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Copy fills a new store in etcd with the records of this one. It moves a store from a file to etcd.
func (s *Store) Copy(to *Store) error {
	if !to.Shared() {
		return fmt.Errorf("cannot copy to %s: want %s; `gearshift store backup` copies to a file", to.Path, etcd.Form)
	}
	target := &shared{to}
	if err := target.exists(); !errors.Is(err, ErrNotFound) {
		return cmp.Or(err, fmt.Errorf("cannot copy to %s: there is a store; want another prefix", to.Path))
	}
	return s.medium().view(func(from buckets) error {
		return target.change(true, func(root buckets) error {
			if root.bucket(indexBucket) != nil {
				return fmt.Errorf("cannot copy to %s: another process has made a store there", to.Path)
			}
			return copyBuckets(from, root)
		})
	})
}

// Follower is called when a store in etcd changes, and when it goes away and is back.
type Follower = records.Follower

// Follow calls the follower about a store that is [Store.Shared], until the context ends.
func (s *Store) Follow(ctx context.Context, f Follower) error {
	r, err := (&shared{s}).at()
	if err != nil {
		return err
	}
	return r.Follow(ctx, f)
}
