package states

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

var now = zero.Add(1000 * time.Second)

func open(t *testing.T, path string) State {
	t.Helper()
	f, err := At(path).Open(Failover, now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What a run has saved is there for the next, whose term is another.
func TestStateSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	if f.Last() != nil || f.Term() != 1000 {
		t.Errorf("new: %q, term %d; want nothing, term 1000", f.Last(), f.Term())
	}
	for _, state := range []string{"first", "second"} {
		if err := f.Save([]byte(state)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for term := uint64(1001); term < 1003; term++ {
		f = open(t, path)
		if string(f.Last()) != "second" || f.Term() != term {
			t.Errorf("again: %q, term %d; want second, term %d", f.Last(), f.Term(), term)
		}
		_ = f.Close()
	}
	late, err := At(path).Open(Failover, now.Add(time.Hour))
	if err != nil || late.Term() != 4600 {
		t.Fatalf("an hour later: %v, term %d; want 4600", err, late.Term())
	}
	_ = late.Close()
}

func TestOneControllerHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	_, err := At(path).Open(Failover, now)
	if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want that another controller holds it", err)
	}
	_ = f.Close()
	f = open(t, path)
	_ = f.Close()
}

// TestKindsShareAFile: each has a term and a state of its own, a second one of a kind is refused, and the file is held
// until the last is closed.
func TestKindsShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	file := At(path)
	begin := func(kind string) State {
		t.Helper()
		s, err := file.Open(kind, now)
		if err == nil {
			err = s.Save([]byte(kind))
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	refused := func(f *File) {
		t.Helper()
		if _, err := f.Open(Rollout, now); !errors.Is(err, ErrHeld) {
			t.Errorf("error %v, want that another controller holds it", err)
		}
	}
	first, second := begin(Failover), begin(Rollout)
	refused(file)
	refused(At(path))
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if first = begin(Failover); string(first.Last()) != Failover || first.Term() != 1001 || second.Term() != 1000 {
		t.Errorf("state %s of term %d, want failover, 1001", first.Last(), first.Term())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	refused(At(path))
	if err := second.Close(); err != nil || second.Save(nil) == nil {
		t.Errorf("error %v, and a state that is closed is saved", err)
	}
	file = At(path)
	if second = begin(Rollout); string(second.Last()) != Rollout {
		t.Errorf("state %s", second.Last())
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestOtherDatabases: a file of bbolt with anything else in it is refused, and stays as it is.
func TestOtherDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("policies")); return err })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := At(path).Open(Failover, now); err == nil || !strings.Contains(err.Error(), `it holds "policies", which is no state`) {
			t.Errorf("error %v", err)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a state file\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := At(path).Open(Failover, now); err == nil || !strings.Contains(err.Error(), "it is no such file, or is damaged") {
		t.Errorf("error %v", err)
	}
	if _, err := At(filepath.Join(path, "state")).Open(Failover, now); err == nil || !strings.HasPrefix(err.Error(), "cannot open the failover state file") {
		t.Errorf("error %v", err)
	}
}
