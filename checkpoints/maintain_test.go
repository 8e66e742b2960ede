package checkpoints_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"gearshift/checkpoints"
)

// warningStore is the store with its warnings kept.
func warningStore(path string) (*checkpoints.Store, *[]string) {
	var warnings []string
	return &checkpoints.Store{Path: path, Warn: func(text string) { warnings = append(warnings, text) }}, &warnings
}

// tear damages the meta page of the last transaction, or of the one before, from a byte on.
func tear(t *testing.T, path string, last bool, from int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if err := errors.Join(db.View(func(tx *bbolt.Tx) error { number = tx.ID(); return nil }), db.Close()); err != nil {
		t.Fatal(err)
	}
	page := number % 2
	if !last {
		page = 1 - page
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := os.Getpagesize()
	clear(file[page*size+from:][:size-from])
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedMetaPageIsNeverSilent(t *testing.T) {
	for name, c := range map[string]struct {
		last bool
		from int
		want string
	}{
		"the last one, its number left": {true, 16 + 56, "is lost: the last promotion"},
		"the last one, all of it":       {true, 0, "if there was one, is lost: the last promotion"},
		"the one before":                {false, 16 + 56, "the older page, so nothing is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			put(t, s, "chat", 1, 1)
			put(t, s, "chat", 2, 2)
			tear(t, s.Path, c.last, c.from)
			for what, use := range map[string]func(*checkpoints.Store) error{
				"read":  func(s *checkpoints.Store) error { _, err := s.List(); return err },
				"write": func(s *checkpoints.Store) error { return s.PutTraining("run", nil, []byte("x")) },
				"backup": func(s *checkpoints.Store) error {
					_, err := s.Backup(filepath.Join(t.TempDir(), "copy"), false)
					return err
				},
			} {
				// Each store is warnings of once, so each is another.
				path := filepath.Join(t.TempDir(), "store.db")
				file, err := os.ReadFile(s.Path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, file, 0o600); err != nil {
					t.Fatal(err)
				}
				damaged, warnings := warningStore(path)
				if err := errors.Join(use(damaged), use(damaged)); err != nil {
					t.Fatal(err)
				}
				if len(*warnings) != 1 || !strings.Contains((*warnings)[0], "is damaged") || !strings.Contains((*warnings)[0], c.want) {
					t.Errorf("%s: warnings %q, want one that says %q", what, *warnings, c.want)
				}
			}
			h, err := s.Verify()
			if err != nil || len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], c.want) {
				t.Errorf("Verify: %+v, %v", h, err)
			}
		})
	}
	sound, warnings := warningStore(newStore(t).Path)
	put(t, sound, "chat", 1, 1)
	if _, err := sound.List(); err != nil || len(*warnings) > 0 {
		t.Errorf("a sound store: %q, %v", *warnings, err)
	}
}

func TestVerifyNamesWhatIsDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		bucket, key string
		change      func([]byte) []byte
		fault       string
		warning     string
	}{
		"sound":           {"policies", "chat@1", bytes.Clone, "", ""},
		"policy changed":  {"policies", "chat@1", func(b []byte) []byte { b[30]++; return b }, "policy chat@1: its 735 bytes are not the 735", ""},
		"policy gone":     {"policies", "chat@1", func([]byte) []byte { return nil }, "policy chat@1: its 0 bytes", ""},
		"progress gone":   {"training", "run\x00\x00\x00\x00\x00", func([]byte) []byte { return nil }, "training run: its 0 bytes of progress are not the 8", ""},
		"nobody's record": {"policies", "other@7", func([]byte) []byte { return []byte("x") }, "", "1 records of kind policy belong to nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			put(t, s, "chat", 1, 1)
			if err := s.PutTraining("run", nil, []byte("progress")); err != nil {
				t.Fatal(err)
			}
			edit(t, s, c.bucket, c.key, c.change)
			h, err := s.Verify()
			if err != nil || h.Policies != 1 || h.Versions != 1 || h.Runs != 1 {
				t.Fatalf("%+v, %v", h, err)
			}
			for what, x := range map[string]struct {
				got  []string
				want string
			}{"faults": {h.Faults, c.fault}, "warnings": {h.Warnings, c.warning}} {
				if all := strings.Join(x.got, "; "); (x.want == "") != (all == "") || !strings.Contains(all, x.want) {
					t.Errorf("%s %q, want %q", what, all, x.want)
				}
			}
		})
	}
	if _, err := newStore(t).Verify(); !missing(err) {
		t.Errorf("no store: %v", err)
	}
}

func TestBackupIsAStoreOfItsOwn(t *testing.T) {
	s := newStore(t)
	put(t, s, "chat", 1, 1)
	promote(t, s, "chat", 1)
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, force := range []bool{false, true} {
		if _, err := s.Backup(to, force); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Backup(to, false); err == nil {
		t.Error("a file that is there is replaced")
	}
	if _, err := s.Backup(s.Path, true); err == nil {
		t.Error("a store is copied onto itself")
	}
	put(t, s, "chat", 2, 2)
	copied := &checkpoints.Store{Path: to}
	wantVersions(t, copied, "chat@1 production")
	wantSample(t, copied, "chat", 1, 1)
	if h, err := copied.Verify(); err != nil || len(h.Faults)+len(h.Warnings) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestCompactKeepsAllAndGivesBackRoom(t *testing.T) {
	s := newStore(t)
	put(t, s, "chat", 1, 1)
	promote(t, s, "chat", 1)
	if err := s.PutTraining("run", nil, noise(1, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if err := s.PutTraining("run", nil, []byte("progress")); err != nil {
		t.Fatal(err)
	}
	edit(t, s, "policies", "other@7", func([]byte) []byte { return []byte("x") })
	before, after, err := s.Compact()
	if err != nil || after >= before/2 {
		t.Fatalf("%d bytes of %d, %v", after, before, err)
	}
	wantSample(t, s, "chat", 1, 1)
	if got, err := s.GetTraining("run"); err != nil || string(got.Progress) != "progress" {
		t.Errorf("%+v, %v", got, err)
	}
	if ref, err := s.Production(); err != nil || ref.String() != "chat@1" {
		t.Errorf("in production %v, %v", ref, err)
	}
	if h, err := s.Verify(); err != nil || len(h.Faults)+len(h.Warnings) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(s.Path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// What is written while others compact is not lost with the old file.
func TestWritesDuringCompactionsStay(t *testing.T) {
	s := newStore(t)
	put(t, s, "chat", 1, 1)
	var compacting sync.WaitGroup
	stop := make(chan struct{})
	compacting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, _, err := s.Compact(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for v := 2; v <= 20; v++ {
		put(t, s, "chat", uint64(v), v)
	}
	close(stop)
	compacting.Wait()
	wantSample(t, s, "chat@20", 20, 20)
	if h, err := s.Verify(); err != nil || len(h.Faults) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
}
