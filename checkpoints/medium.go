package checkpoints

import (
	"errors"
	"fmt"

	"gearshift/internal/etcd"
)

// medium is what a store lies in: a [file] of bbolt, or etcd, which several processes [shared]. A transaction
// of either sees the records of one moment, and is stored whole or not at all.
type medium interface {
	// view runs op on the records as they are. No store is ErrNotFound.
	view(op func(buckets) error) error
	// update runs op and stores what it did, all of it or nothing. It may run op again after another
	// process was quicker. No store is ErrNotFound.
	update(op func(buckets) error) error
	// create makes an empty store where there is none.
	create() error
	// canWrite reports whether the store can be written, or made where there is none.
	canWrite() error
}

// buckets are those of a transaction.
type buckets interface {
	bucket(name []byte) bucket // nil if there is none of the name
	create(name []byte) (bucket, error)
	writable() bool
}

// bucket has records by key, as one of bbolt has. Its values die with the transaction.
type bucket interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
	ForEach(f func(key, value []byte) error) error
}

// medium returns what the store lies in.
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

// tx is one transaction on a store. Its byte slices die with it.
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

// view runs op on the store as it is. No store is ErrNotFound.
func (s *Store) view(op func(*tx) error) error {
	return s.medium().view(func(root buckets) error {
		t, err := s.begin(root)
		if err != nil {
			return err
		}
		return op(t)
	})
}

// update runs op and stores what it did, all of it or nothing. It may run op several times. No store is
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

// Writable reports whether the store can be written, or made where there is none, before
// what it is to hold has taken its time.
func (s *Store) Writable() error { return s.medium().canWrite() }

// missing is the error of a store that is not there.
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

// beginIn reads the index of what is stored in a bucket of its own, which a store has once
// something was put there.
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

// empty makes buckets those of an empty store.
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
