package etcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Tx is one transaction, for use by one goroutine.
type Tx struct {
	*session
	directory *directory
	at        int64 // the revision at which records are read
	// writes and drops hold the changes; nil in a transaction that only reads.
	writes map[position][]byte
	drops  map[position]bool
	made   bool  // a bucket was created
	fault  error // of a read, since Get returns no error
}

// position locates a record by bucket and key.
type position struct{ bucket, key string }

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.bucket, q.bucket), cmp.Compare(p.key, q.key))
}

func (t *Tx) changed() bool { return t.made || len(t.writes)+len(t.drops) > 0 }

// compacted reports whether a read failed because etcd no longer has the revision.
func (t *Tx) compacted() bool { return isCompacted(t.fault) }

// Revision returns the revision at which the transaction reads.
func (t *Tx) Revision() int64 { return t.at }

// Writable reports whether the transaction may change records.
func (t *Tx) Writable() bool { return t.writes != nil }

// Size returns the size of the records in bytes.
func (t *Tx) Size() (n int64) {
	for _, b := range t.directory.Buckets {
		for _, r := range b {
			n += int64(r.Size)
		}
	}
	return n
}

// Bucket returns the bucket of the name, or nil.
func (t *Tx) Bucket(name string) *Bucket {
	if t.directory.Buckets[name] == nil {
		return nil
	}
	return &Bucket{t, name}
}

// CreateBucket returns the bucket of the name, and creates it if there is none.
func (t *Tx) CreateBucket(name string) *Bucket {
	if t.directory.Buckets[name] == nil {
		t.directory.Buckets[name], t.made = map[string]record{}, true
	}
	return &Bucket{t, name}
}

// Bucket holds the records of a name, and works like a bbolt bucket. A record that cannot be read counts as missing,
// and fails the transaction.
type Bucket struct {
	tx   *Tx
	name string
}

func (b *Bucket) at(key []byte) position {
	return position{b.name, base64.RawURLEncoding.EncodeToString(key)}
}

// Get returns the value of a key, or nil.
func (b *Bucket) Get(key []byte) []byte {
	p := b.at(key)
	if data, ok := b.tx.writes[p]; ok {
		return data
	}
	r, ok := b.tx.directory.Buckets[b.name][p.key]
	if !ok || b.tx.drops[p] || b.tx.fault != nil {
		return nil
	}
	if r.Chunks == 0 {
		return []byte{}
	}
	got, err := within(b.tx.session, "read a record", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.tx.client.Get(ctx, b.tx.chunks(r.ID), clientv3.WithPrefix(), clientv3.WithRev(b.tx.at))
	})
	if err != nil {
		b.tx.fault = err
		return nil
	}
	parts := make([][]byte, len(got.Kvs))
	for i, kv := range got.Kvs {
		parts[i] = kv.Value
	}
	return bytes.Join(parts, nil)
}

// Put sets the value of a key.
func (b *Bucket) Put(key, value []byte) error {
	p := b.at(key)
	delete(b.tx.drops, p)
	b.tx.writes[p] = bytes.Clone(value)
	return nil
}

// Delete removes a key, if it exists.
func (b *Bucket) Delete(key []byte) error {
	p := b.at(key)
	delete(b.tx.writes, p)
	if _, ok := b.tx.directory.Buckets[b.name][p.key]; ok {
		b.tx.drops[p] = true
	}
	return nil
}

// ForEach calls f with each key and its value, in the order of keys, as they were when the transaction began.
func (b *Bucket) ForEach(f func(key, value []byte) error) error {
	var keys [][]byte
	for text := range maps.Keys(b.tx.directory.Buckets[b.name]) {
		key, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return ErrForeign
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, bytes.Compare)
	for _, key := range keys {
		if err := f(key, b.Get(key)); err != nil {
			return err
		}
	}
	return nil
}
