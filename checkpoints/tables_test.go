package checkpoints

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// TestTables: a table comes back as it was put, replaces the one before, outlives a
// compaction, and is no policy.
func TestTables(t *testing.T) {
	s := &Store{Path: filepath.Join(t.TempDir(), "s.db")}
	if _, err := s.GetTable("digits@cpu0"); !errors.Is(err, ErrNotFound) {
		t.Errorf("without a store: %v", err)
	}
	for _, table := range []StoredTable{{"one", []byte("first\nand more")}, {"two", []byte{0, 1, 2}}} {
		if err := s.PutTable("digits@cpu0", table); err != nil {
			t.Fatal(err)
		}
		got, err := s.GetTable("digits@cpu0")
		if err != nil || got.Of != table.Of || !slices.Equal(got.Data, table.Data) {
			t.Errorf("%+v, %v; want %+v", got, err, table)
		}
	}
	if _, err := s.GetTable("digits@cpu1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another name: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) > 0 {
		t.Errorf("policies %v, %v", list, err)
	}
	if _, _, err := s.Compact(); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Verify(); err != nil || h.Tables != 1 || len(h.Faults)+len(h.Warnings) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestDamagedTable: bytes that are not those written are a fault, and no table.
func TestDamagedTable(t *testing.T) {
	s := &Store{Path: filepath.Join(t.TempDir(), "s.db")}
	if err := s.PutTable("digits@cpu0", StoredTable{"one", []byte("strategies")}); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(s.Path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(b *bbolt.Tx) error {
		data := slices.Clone(b.Bucket(tablesBucket).Get([]byte("digits@cpu0")))
		data[len(data)/2] ^= 1
		return b.Bucket(tablesBucket).Put([]byte("digits@cpu0"), data)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetTable("digits@cpu0"); !errors.Is(err, ErrCorrupted) {
		t.Errorf("read: %v", err)
	}
	if h, err := s.Verify(); err != nil || len(h.Faults) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}
