// Package etcd keeps the records of a store of checkpoints in etcd.
//
// One key, the directory, lists the records of all buckets and locates their bytes: in chunks below etcd's limit of a
// request, under an identifier that is used once. A transaction reads the directory, and the records at its revision.
// It writes new chunks, and then replaces the directory if that has not changed since. So a half-written record is never
// visible.
//
// Chunks that the new directory does not list are deleted then: those of replaced records, and those of writers that died
// or were in conflict. A writer at work loses none that it could still list. What is there when the directory is replaced
// was written by one that has read an older directory, and whose own replacement fails.
package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	cluster "gearshift/internal/etcd"
)

// Records gives access to a store at an address. Each transaction opens its own connection.
type Records struct {
	Address cluster.Address
	// Timeout bounds each request to etcd, and the retries of a transaction after conflicts; zero means 3 s.
	Timeout time.Duration
}

var (
	// ErrNone reports that the store does not exist.
	ErrNone = errors.New("there is no store")
	// ErrForeign reports that the prefix holds other data.
	ErrForeign = errors.New("its prefix holds data of another program")
	// ErrNewer reports a store in a newer version's format.
	ErrNewer = errors.New("it is written in a newer format")
	// ErrContended reports a transaction that was in conflict with others until its timeout.
	ErrContended = errors.New("other processes keep writing to it")
)

// format is the version of the directory and of the keys.
const format = 1

// The keys below the prefix of a store.
const (
	directoryKey = "directory"
	chunksKey    = "chunks/"
)

// chunk bounds the value of a key, in bytes. etcd takes requests of 1.5 MiB.
const chunk = 1 << 20

// directory lists records, by bucket and key.
type directory struct {
	Format  int                          `json:"format"`
	Buckets map[string]map[string]record `json:"buckets"` // keys are in base64
}

// record locates a record's bytes.
type record struct {
	ID     string `json:"id"`
	Size   int    `json:"size"`
	Chunks int    `json:"chunks"`
}

func (r *Records) timeout() time.Duration { return cmp.Or(r.Timeout, 3*time.Second) }

// session works on the store with one client.
type session struct {
	*Records
	client *clientv3.Client
}

// connect runs op with a client.
func (r *Records) connect(op func(*session) error) error {
	c, err := r.Address.Dial()
	if err != nil {
		return cluster.Explain(err)
	}
	return errors.Join(op(&session{r, c}), c.Close())
}

// within runs a request to etcd within the timeout, and reports a failure as [cluster.ErrAway].
func within[T any](s *session, what string, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(s.client.Ctx(), s.timeout())
	defer cancel()
	out, err := request(ctx)
	if err != nil {
		err = cluster.Explain(s.Address.Away(what, err))
	}
	return out, err
}

// read returns the directory, or nil, with its revision and that of etcd at the time.
func (s *session) read() (d *directory, revision, at int64, err error) {
	got, err := within(s, "read the directory", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, s.Address.Prefix+directoryKey)
	})
	if err != nil || len(got.Kvs) == 0 {
		if err == nil {
			at = got.Header.Revision
		}
		return nil, 0, at, err
	}
	d = &directory{}
	if err := json.Unmarshal(got.Kvs[0].Value, d); err != nil || d.Format < 1 {
		return nil, 0, 0, fmt.Errorf("%w: key %s", ErrForeign, s.Address.Prefix+directoryKey)
	}
	if d.Format > format {
		return nil, 0, 0, fmt.Errorf("%w: format %d, this gearshift reads formats up to %d", ErrNewer, d.Format, format)
	}
	return d, got.Kvs[0].ModRevision, got.Header.Revision, nil
}

// View runs op on the records of one moment. Without a store it returns [ErrNone].
func (r *Records) View(op func(*Tx) error) error {
	return r.connect(func(s *session) error {
		return s.again(func() (done bool, err error) {
			d, _, at, err := s.read()
			switch {
			case err != nil:
				return true, err
			case d == nil:
				return true, ErrNone
			}
			t := &Tx{session: s, directory: d, at: at}
			err = op(t)
			return !t.compacted(), cmp.Or(t.fault, err)
		})
	})
}

// Update runs op and stores all of its changes or none. It runs op again after a conflict. Without a store it returns
// [ErrNone], unless create is set.
func (r *Records) Update(create bool, op func(*Tx) error) error {
	return r.connect(func(s *session) error {
		return s.again(func() (done bool, err error) {
			d, revision, at, err := s.read()
			switch {
			case err != nil:
				return true, err
			case d == nil && !create:
				return true, ErrNone
			case d == nil:
				d = &directory{Format: format, Buckets: map[string]map[string]record{}}
			}
			t := &Tx{session: s, directory: d, at: at, writes: map[position][]byte{}, drops: map[position]bool{}}
			if err := cmp.Or(op(t), t.fault); err != nil || t.fault != nil {
				return !t.compacted(), cmp.Or(t.fault, err)
			}
			if !t.changed() {
				return true, nil
			}
			return s.commit(t, revision)
		})
	})
}

// again retries a transaction until it is done or its time is over.
func (s *session) again(try func() (done bool, err error)) error {
	deadline := time.Now().Add(s.timeout())
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		done, err := try()
		if done {
			return err
		}
		if time.Now().After(deadline) {
			return cmp.Or(err, ErrContended)
		}
		time.Sleep(rand.N(pause))
	}
}

// commit stores the transaction's changes. It is not done if the directory has changed since.
func (s *session) commit(t *Tx, revision int64) (done bool, err error) {
	t.list()
	text, err := json.Marshal(t.directory)
	if err != nil {
		return true, err
	}
	if len(text) > chunk {
		return true, fmt.Errorf("cannot write store %s: its directory would take %d bytes, above %d; remove versions or the progress of training runs", s.Address, len(text), chunk)
	}
	if err := s.write(t); err != nil {
		return true, err
	}
	key := s.Address.Prefix + directoryKey
	out, err := within(s, "write the directory", func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, string(text))).Commit()
	})
	if err != nil || !out.Succeeded {
		return err != nil, err
	}
	_ = s.sweep(t.directory, out.Header.Revision) // the changes are stored; the next commit sweeps again
	return true, nil
}

// list has the directory list new records, under new identifiers, and no longer those that are dropped.
func (t *Tx) list() {
	for p := range t.drops {
		delete(t.directory.Buckets[p.bucket], p.key)
	}
	for p, data := range t.writes {
		id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
		t.directory.Buckets[p.bucket][p.key] = record{ID: id, Size: len(data), Chunks: (len(data) + chunk - 1) / chunk}
	}
}

// write puts the chunks of new records.
func (s *session) write(t *Tx) error {
	for _, p := range slices.SortedFunc(maps.Keys(t.writes), position.compare) {
		at, n := s.chunks(t.directory.Buckets[p.bucket][p.key].ID), 0
		for part := range slices.Chunk(t.writes[p], chunk) {
			if _, err := within(s, "write a chunk", func(ctx context.Context) (*clientv3.PutResponse, error) {
				return s.client.Put(ctx, fmt.Sprintf("%s%08d", at, n), string(part))
			}); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// most bounds the operations of one transaction of etcd, which takes 128.
const most = 100

// sweep deletes the chunks that were there when the directory was written, at the revision, and that it does not list.
func (s *session) sweep(d *directory, revision int64) error {
	listed := map[string]bool{}
	for _, records := range d.Buckets {
		for _, r := range records {
			listed[r.ID] = true
		}
	}
	prefix := s.Address.Prefix + chunksKey
	got, err := within(s, "list chunks", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithRev(revision))
	})
	if err != nil {
		return err
	}
	var drop []clientv3.Op
	for _, kv := range got.Kvs {
		id, number, _ := strings.Cut(string(kv.Key[len(prefix):]), "/")
		if len(id) == 32 && len(number) == 8 && !listed[id] { // others are not of this store
			drop = append(drop, clientv3.OpDelete(string(kv.Key)))
		}
	}
	for ops := range slices.Chunk(drop, most) {
		if _, err := within(s, "delete chunks", func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return s.client.Txn(ctx).Then(ops...).Commit()
		}); err != nil {
			return err
		}
	}
	return nil
}

// chunks returns the prefix of the keys of a record's chunks.
func (r *Records) chunks(id string) string { return r.Address.Prefix + chunksKey + id + "/" }

// isCompacted reports whether etcd no longer has the requested revision.
func isCompacted(err error) bool { return errors.Is(err, rpctypes.ErrCompacted) }
