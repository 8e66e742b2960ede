package checkpoints_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"gearshift/checkpoints"
	"gearshift/internal/etcd"
	"gearshift/internal/etcd/etcdtest"
)

// keys returns the keys below the prefix of a store in etcd.
func keys(t *testing.T, s *checkpoints.Store) (list []string) {
	t.Helper()
	address, err := etcd.Parse(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	running, err := server()
	if err != nil {
		t.Fatal(err)
	}
	got, err := running.Client(t).Get(t.Context(), address.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		list = append(list, strings.TrimPrefix(string(kv.Key), address.Prefix))
	}
	return list
}

// TestTablesInEtcd: a table comes back unchanged, and the store holds only the chunks of listed records.
func TestTablesInEtcd(t *testing.T) {
	s := newShared(t)
	for _, data := range []string{"first\nand more", strings.Repeat("x", 3<<20)} {
		if err := s.PutTable("digits@cpu0", checkpoints.StoredTable{Of: "one", Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.GetTable("digits@cpu0"); err != nil || got.Of != "one" || string(got.Data) != data {
			t.Errorf("%d bytes of %q, %v; want %d", len(got.Data), got.Of, err, len(data))
		}
	}
	if h, err := s.Verify(); err != nil || h.Tables != 1 || len(h.Faults)+len(h.Warnings) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
	// The directory, a chunk of the index, and four of the table.
	if list := keys(t, s); len(list) != 6 {
		t.Errorf("keys %q; want 6", list)
	}
	_, _, err := s.Compact()
	if err == nil || !strings.Contains(err.Error(), "it is for stores in files") {
		t.Errorf("Compact: %v", err)
	}
}

// TestCopyAndBackup: a store in a file moves into etcd and back, complete.
func TestCopyAndBackup(t *testing.T) {
	from, to := newStore(t), newShared(t)
	put(t, from, "chat", 1, 1)
	promote(t, from, "chat", 1)
	putPredictor(t, from.Predictors(), "mine", "first", 1)
	if err := from.PutTraining("run", nil, noise(1, 5<<19)); err != nil {
		t.Fatal(err)
	}
	if err := from.Copy(to); err != nil {
		t.Fatal(err)
	}
	if err := from.Copy(to); err == nil || !strings.Contains(err.Error(), "there is a store; want another prefix") {
		t.Errorf("again: %v", err)
	}
	back := filepath.Join(t.TempDir(), "back.db")
	if _, err := to.Backup(back, false); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*checkpoints.Store{to, {Path: back}} {
		wantVersions(t, s, "chat@1 production")
		wantSample(t, s, "chat@1", 1, 1)
		if got, err := s.GetTraining("run"); err != nil || !bytes.Equal(got.Progress, noise(1, 5<<19)) {
			t.Errorf("%s: progress of %d bytes, %v", s.Path, len(got.Progress), err)
		}
		if h, err := s.Verify(); err != nil || len(h.Faults)+len(h.Warnings) > 0 || h.Predictors != 1 {
			t.Errorf("%s: %+v, %v", s.Path, h, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(back)); err != nil || len(left) != 1 {
		t.Errorf("the folder of the backup has %v, %v", left, err)
	}
}

// TestEtcdIsAway: every operation reports it within its time, in one line with the endpoint.
func TestEtcdIsAway(t *testing.T) {
	endpoint := etcdtest.Closed(t)
	s := &checkpoints.Store{Path: "etcd://" + endpoint + "/gearshift", Timeout: 50 * time.Millisecond}
	var all sync.WaitGroup
	for name, op := range operations(t, s, checkpoints.Ref{Name: "chat", Version: 1}) {
		all.Go(func() {
			err := op()
			if !errors.Is(err, checkpoints.ErrAway) || !strings.Contains(err.Error(), "store etcd://"+endpoint+"/gearshift is away: cannot read the directory at "+endpoint+": ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	if _, err := (&checkpoints.Store{Path: "etcd://user:secret@host:1/x"}).List(); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "GEARSHIFT_ETCD_USER") {
		t.Errorf("a user in the address: %v", err)
	}
}

// TestAWriterThatIsCutOff: its uncommitted records are invisible, and the next writer deletes them; committed ones stay.
func TestAWriterThatIsCutOff(t *testing.T) {
	running, err := server()
	if err != nil {
		t.Fatal(err)
	}
	s := newShared(t)
	put(t, s, "chat", 1, 1)
	before := keys(t, s)
	proxy := etcdtest.NewProxy(t, running.Endpoint)
	cutOff := &checkpoints.Store{Path: strings.Replace(s.Path, running.Endpoint, proxy.Endpoint, 1), Timeout: 5 * time.Second}
	proxy.Slow(5 * time.Millisecond) // so that chunks are written one by one
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := cutOff.PutTraining("run", nil, noise(1, 30<<20)); !errors.Is(err, checkpoints.ErrAway) {
			t.Errorf("PutTraining: %v", err)
		}
	})
	etcdtest.Eventually(t, "two chunks are written", func() bool { return len(keys(t, s)) >= len(before)+2 })
	proxy.Cut()
	writing.Wait()
	if _, err := s.GetTraining("run"); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("GetTraining: %v", err)
	}
	if h, err := s.Verify(); err != nil || len(h.Faults)+len(h.Warnings) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
	put(t, s, "chat", 2, 2)
	if after := keys(t, s); len(after) != len(before)+1 {
		t.Errorf("keys %q are left; want %q and a policy", after, before)
	}
	wantSample(t, s, "chat@1", 1, 1)
}

// TestAWriterIsInConflict: the other writer deletes the chunks that it has written so far. It writes again, and the store
// is whole.
func TestAWriterIsInConflict(t *testing.T) {
	running, err := server()
	if err != nil {
		t.Fatal(err)
	}
	s := newShared(t)
	put(t, s, "chat", 1, 1)
	before := keys(t, s)
	proxy := etcdtest.NewProxy(t, running.Endpoint)
	slow := &checkpoints.Store{Path: strings.Replace(s.Path, running.Endpoint, proxy.Endpoint, 1), Timeout: time.Minute}
	proxy.Slow(5 * time.Millisecond)
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := slow.PutTraining("run", nil, noise(1, 10<<20)); err != nil {
			t.Errorf("PutTraining: %v", err)
		}
	})
	etcdtest.Eventually(t, "two chunks are written", func() bool { return len(keys(t, s)) >= len(before)+2 })
	put(t, s, "chat", 2, 2)
	proxy.Pass()
	writing.Wait()
	if got, err := s.GetTraining("run"); err != nil || !bytes.Equal(got.Progress, noise(1, 10<<20)) {
		t.Errorf("progress of %d bytes, %v", len(got.Progress), err)
	}
	if h, err := s.Verify(); err != nil || len(h.Faults)+len(h.Warnings) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
	wantSample(t, s, "chat", 2, 2)
	written := len(keys(t, s))
	if put(t, s, "chat", 3, 3); len(keys(t, s)) != written+1 {
		t.Errorf("%d keys, and %d after another version", written, len(keys(t, s)))
	}
}

// TestManyChunksAreLeft: a commit deletes chunks that no directory lists, also more than one transaction of etcd can, and
// leaves other keys.
func TestManyChunksAreLeft(t *testing.T) {
	running, err := server()
	if err != nil {
		t.Fatal(err)
	}
	s := newShared(t)
	put(t, s, "chat", 1, 1)
	address, err := etcd.Parse(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	before, client := len(keys(t, s)), running.Client(t)
	leave := func(key string) {
		if _, err := client.Put(t.Context(), address.Prefix+key, ""); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 250 {
		leave(fmt.Sprintf("chunks/%032x/%08d", i/2, i%2))
	}
	leave("chunks/mine/directory") // of a store at another prefix
	if put(t, s, "chat", 2, 2); len(keys(t, s)) != before+2 {
		t.Errorf("%d keys are left; want the %d before, one more of this store and one of another", len(keys(t, s)), before)
	}
	wantSample(t, s, "chat@1", 1, 1)
}

// TestOtherThingsInEtcd: other data at the prefix is refused, and stays.
func TestOtherThingsInEtcd(t *testing.T) {
	running, err := server()
	if err != nil {
		t.Fatal(err)
	}
	s := newShared(t)
	address, err := etcd.Parse(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]error{"of another program": checkpoints.ErrCorrupted, `{"format":2}`: checkpoints.ErrNewerFormat} {
		if _, err := running.Client(t).Put(t.Context(), address.Prefix+"directory", text); err != nil {
			t.Fatal(err)
		}
		for name, op := range operations(t, s, checkpoints.Ref{Name: "chat", Version: 1}) {
			if err := op(); !errors.Is(err, want) {
				t.Errorf("%s at %s: %v; want %v", name, text, err, want)
			}
		}
	}
}
