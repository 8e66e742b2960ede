//go:build unix

package checkpoints

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// A file that shrinks while it is mapped ends a process by SIGBUS, unless that
// is made a panic and caught.
func TestShrinkingFileIsAnError(t *testing.T) {
	s := file{&Store{Path: filepath.Join(t.TempDir(), "store.db"), Timeout: time.Second}}
	if err := s.PutTraining("run", nil, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range []bool{false, true} {
		err := s.open(write, s.timeout(), func(db *bbolt.DB, _ *os.File) error {
			if err := os.Truncate(s.Path, 0); err != nil {
				return err
			}
			touch := func(b *bbolt.Tx) error { _, err := s.begin(boltTx{b}); return err }
			if write {
				return db.Update(touch)
			}
			return db.View(touch)
		})
		if !errors.Is(err, ErrCorrupted) {
			t.Errorf("error is %v", err)
		}
		// The file's lock has not outlived the call.
		if err := os.WriteFile(s.Path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.PutTraining("run", nil, nil); err != nil {
			t.Error(err)
		}
	}
}
