package checkpoints

import (
	"errors"
	"fmt"

	"gearshift/internal/etcd"
)

// medium stores the records: a [file] of bbolt, or etcd, [shared] by several processes. A transaction of either
// reads the records of one moment, and is stored whole or not at all.
type medium interface {
	// view runs op on the present records. Without a store it returns ErrNotFound.
	view(op func(buckets) error) error
	// update runs op and stores all of its changes or none. It runs op again after a conflict with another
	// process. Without a store it returns ErrNotFound.
	update(op func(buckets) error) error
	// create makes an empty store where there is none.
	create() error
	// canWrite returns why the store cannot be written, or created where there is none.
	canWrite() error
}

// buckets gives access to the buckets of a transaction.
type buckets interface {
	bucket(name []byte) bucket // nil if there is none of the name
	create(name []byte) (bucket, error)
	writable() bool
}

// bucket holds records by key, like a bbolt bucket. Its values are valid during the transaction.
type bucket interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
	ForEach(f func(key, value []byte) error) error
}

// medium returns the medium that holds the store.
func (s *Store) medium() medium {
	if s.Shared() {
		return &shared{Store: s}
	}
	return file{s}
}

// Shared reports whether the store lies in etcd, where several routers share it.
func (s *Store) Shared() bool { return etcd.Is(s.Path) }

// The buckets of a store.
var (
	indexBucket    = []byte("index")    // indexKey → the sealed index
	policiesBucket = []byte("policies") // blobKey → an encoded checkpoint; see also kind
	trainingBucket = []byte("training") // chunkKey → a piece of a run's progress
	indexKey       = []byte("index")
)

// tx is one transaction on a store. Its byte slices are valid until it ends.
type tx struct {
	index    *index
	at       bucket // of the index
	policies bucket // or of what else is stored by name and version
	training bucket // nil where that is not policies
	root     buckets
}

// everyBucket lists the buckets that a store may have.
func everyBucket() [][]byte {
	return [][]byte{indexBucket, policiesBucket, trainingBucket, tablesBucket, predictors.bucket}
}

// view runs op on the present store. Without one it returns ErrNotFound.
func (s *Store) view(op func(*tx) error) error {
	return s.medium().view(func(root buckets) error {
		t, err := s.begin(root)
		if err != nil {
			return err
		}
		return op(t)
	})
}

// update runs op and stores all of its changes or none. It may run op several times. Without a store it returns
// ErrNotFound.
func (s *Store) update(op func(*tx) error) error {
	return s.medium().update(func(root buckets) error {
		t, err := s.begin(root)
		if err != nil {
			return err
		}
		if err := op(t); err != nil {
			return err
		}
		return t.finish()
	})
}

// create makes an empty store where there is none.
func (s *Store) create() error { return s.medium().create() }

// Writable returns why the store cannot be written, or created where there is none. Call it before work whose
// result is to be stored.
func (s *Store) Writable() error { return s.medium().canWrite() }

// missing returns the error of a store that does not exist.
func (s *Store) missing() error {
	return &fault{ErrNotFound, fmt.Sprintf("no checkpoint store at %s; %s makes one", s.Path, s.stored().maker)}
}

// begin reads the index.
func (s *Store) begin(root buckets) (*tx, error) {
	t := &tx{at: root.bucket(indexBucket), policies: root.bucket(policiesBucket), training: root.bucket(trainingBucket), root: root}
	if t.at == nil || t.policies == nil || t.training == nil {
		return nil, s.corrupted("it does not hold what a checkpoint store holds")
	}
	if bucket := s.stored().bucket; bucket != nil {
		return s.beginIn(root, bucket)
	}
	return s.readIndex(t, t.at.Get(indexKey))
}

// beginIn reads the index of records that have their own bucket, which the first write creates.
func (s *Store) beginIn(root buckets, name []byte) (*tx, error) {
	t := &tx{at: root.bucket(name), root: root}
	if t.at == nil && root.writable() {
		at, err := root.create(name)
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
	if data == nil { // only the key exists so far
		t.index = newIndex()
		return t, nil
	}
	return s.readIndex(t, data)
}

// readIndex decodes data into the transaction's index.
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

// empty writes the buckets of an empty store.
func empty(root buckets) error {
	for _, name := range [][]byte{policiesBucket, trainingBucket} {
		if _, err := root.create(name); err != nil {
			return err
		}
	}
	at, err := root.create(indexBucket)
	if err != nil {
		return err
	}
	data, err := newIndex().marshal()
	if err != nil {
		return err
	}
	return at.Put(indexKey, data)
}
