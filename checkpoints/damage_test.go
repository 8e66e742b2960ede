package checkpoints_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"gearshift/checkpoints"
)

func missing(err error) bool { return errors.Is(err, checkpoints.ErrNotFound) }

// truth is a store and all that it held before its last write and after.
type truth struct {
	file     []byte
	policies map[string]*checkpoints.Checkpoint // by reference
	progress [][]byte                           // of run "run", in time
}

// undamaged is a store of some policies and progress, big enough to have
// branch pages, inline buckets, overflow pages and a list of free pages.
func undamaged(t *testing.T) *truth {
	t.Helper()
	s := newStore(t)
	w := &truth{policies: map[string]*checkpoints.Checkpoint{}}
	for v := 1; v <= 3; v++ {
		w.progress = append(w.progress, noise(uint64(v), 30_000*v))
		if err := s.PutTraining("run", nil, w.progress[v-1]); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"chat", "code"} {
			put(t, s, name, uint64(v), v)
			ref := checkpoints.Ref{Name: name, Version: v}
			c, _, err := s.Get(ref)
			if err != nil {
				t.Fatal(err)
			}
			w.policies[ref.String()] = c
		}
	}
	promote(t, s, "chat", 2)
	var err error
	if w.file, err = os.ReadFile(s.Path); err != nil {
		t.Fatal(err)
	}
	return w
}

// wantTruthOrError uses a store of these bytes. What it yields must be true, or
// an error that the damage explains; nothing may crash.
func (w *truth) wantTruthOrError(t *testing.T, path string, file []byte, what string, at int) {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &checkpoints.Store{Path: path}
	w.read(t, s, what, at)
	if t.Failed() {
		t.FailNow()
	}
}

func (w *truth) read(t *testing.T, s *checkpoints.Store, what string, at int) {
	// An older whole transaction may lack what the last one stored: bbolt
	// returns to it when the newest meta page is damaged.
	tolerate := func(err error) bool {
		ok := errors.Is(err, checkpoints.ErrCorrupted) || missing(err)
		if !ok || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s at %d: error %q", what, at, err)
		}
		return ok
	}
	if list, err := s.List(); err != nil {
		tolerate(err)
	} else if len(list) < len(w.policies)-1 || len(list) > len(w.policies) {
		t.Errorf("%s at %d: %d entries, want %d", what, at, len(list), len(w.policies))
	}
	for name, want := range w.policies {
		ref, err := checkpoints.ParseRef(name)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := s.Get(ref)
		if err != nil {
			tolerate(err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s at %d: policy %s is another", what, at, name)
		}
	}
	if got, err := s.GetTraining("run"); err != nil {
		tolerate(err)
	} else if !bytes.Equal(got.Progress, w.progress[len(w.progress)-1]) && !bytes.Equal(got.Progress, w.progress[len(w.progress)-2]) {
		t.Errorf("%s at %d: progress is another", what, at)
	}
	if ref, err := s.Production(); err != nil {
		tolerate(err)
	} else if ref.String() != "chat@2" {
		t.Errorf("%s at %d: production is %v", what, at, ref)
	}
}

func TestTruncatedStore(t *testing.T) {
	w := undamaged(t)
	sizes := []int{0, 1, 15, 100, 4095, 4096, 8191, 8192, len(w.file) - 1}
	for n := 12 << 10; n < len(w.file); n += 4096 {
		sizes = append(sizes, n, n+2048)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	for _, n := range sizes {
		w.wantTruthOrError(t, path, w.file[:n], "truncated", n)
	}
}

// Bits are flipped where they steer (the heads of pages and their elements) and
// at random everywhere else.
func TestFlippedBits(t *testing.T) {
	w := undamaged(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pageSize := os.Getpagesize()
	var places []int
	for page := 0; page < len(w.file); page += pageSize {
		for i := range 80 {
			if w.file[page+i] != 0 || i < 16 {
				places = append(places, page+i)
			}
		}
	}
	for range 500 {
		places = append(places, rng.IntN(len(w.file)))
	}
	rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	path := filepath.Join(t.TempDir(), "store.db")
	for _, at := range places[:400] {
		file := bytes.Clone(w.file)
		file[at] ^= 1 << rng.IntN(8)
		w.wantTruthOrError(t, path, file, "flipped", at)
	}
}

// A write to a damaged store is refused, or does no further damage.
func TestWritesToDamagedStores(t *testing.T) {
	w := undamaged(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pages := len(w.file) / os.Getpagesize()
	path := filepath.Join(t.TempDir(), "store.db")
	for range 40 {
		file := bytes.Clone(w.file)
		at := rng.IntN(pages)*os.Getpagesize() + rng.IntN(80)
		file[at] ^= 1 << rng.IntN(8)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &checkpoints.Store{Path: path}
		intact := map[string]bool{}
		for name := range w.policies {
			ref, _ := checkpoints.ParseRef(name)
			_, _, err := s.Get(ref)
			intact[name] = err == nil
		}
		for i := range 3 {
			if err := s.PutTraining("more", nil, noise(uint64(i), 50_000)); err != nil {
				if !errors.Is(err, checkpoints.ErrCorrupted) {
					t.Fatalf("flipped at %d: PutTraining: %v", at, err)
				}
				break
			}
		}
		for name, was := range intact {
			ref, _ := checkpoints.ParseRef(name)
			if got, _, err := s.Get(ref); was && (err != nil || !reflect.DeepEqual(got, w.policies[name])) {
				t.Fatalf("flipped at %d: writing lost policy %s: %v", at, name, err)
			}
		}
	}
}

// A power cut can tear the page that makes a transaction valid. The store is
// then as it was before that transaction.
func TestTornMetaPage(t *testing.T) {
	s := newStore(t)
	put(t, s, "chat", 1, 1)
	before, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "chat", 2, 2)
	after, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	size := os.Getpagesize()
	for page := range 2 {
		if bytes.Equal(before[page*size:][:size], after[page*size:][:size]) {
			continue
		}
		clear(after[page*size+40:][:size-40])
		if err := os.WriteFile(s.Path, after, 0o600); err != nil {
			t.Fatal(err)
		}
		wantVersions(t, s, "chat@1")
		wantSample(t, s, "chat", 1, 1)
		put(t, s, "chat", 3, 2)
		wantSample(t, s, "chat", 3, 2)
		return
	}
	t.Error("a transaction has changed no meta page")
}

func TestOtherDatabasesAreNoStores(t *testing.T) {
	for name, fill := range map[string]func(tx *bbolt.Tx) error{
		"empty": func(tx *bbolt.Tx) error { return nil },
		"other": func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("users")); return err },
	} {
		path := filepath.Join(t.TempDir(), name)
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(fill), db.Close()); err != nil {
			t.Fatal(err)
		}
		s := &checkpoints.Store{Path: path}
		for name, op := range operations(t, s, checkpoints.Ref{Name: "chat"}) {
			wantError(t, op(), checkpoints.ErrCorrupted, prefix(name)+"store "+path+
				" is corrupted, or no checkpoint store: it does not hold what a checkpoint store holds; move it away or restore a copy")
		}
	}
}

// edit changes the index of a store as no released program would.
func edit(t *testing.T, s *checkpoints.Store, bucket, key string, change func([]byte) []byte) {
	t.Helper()
	db, err := bbolt.Open(s.Path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		if changed := change(bytes.Clone(b.Get([]byte(key)))); changed != nil {
			return b.Put([]byte(key), changed)
		}
		return b.Delete([]byte(key))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedContentIsNamed(t *testing.T) {
	broken := func(s *checkpoints.Store, why string) string {
		return "store " + s.Path + " is corrupted, or no checkpoint store: " + why + "; move it away or restore a copy"
	}
	chunk := "run\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		bucket, key string
		change      func([]byte) []byte
		run         bool // damages the run, or else the policy
		is          error
		why         string
	}{
		"policy changed": {"policies", "chat@1", func(b []byte) []byte { b[30]++; return b }, false, checkpoints.ErrCorrupted,
			"the policy's 735 bytes are not the 735 that were written"},
		"policy gone": {"policies", "chat@1", func([]byte) []byte { return nil }, false, checkpoints.ErrCorrupted,
			"the policy's 0 bytes are not the 735 that were written"},
		"progress changed": {"training", chunk, func(b []byte) []byte { b[0]++; return b }, true, checkpoints.ErrCorrupted,
			"the progress's CRC-32C is 6aab78b4, recorded is 23970593"},
		"progress short": {"training", chunk, func(b []byte) []byte { return b[1:] }, true, checkpoints.ErrCorrupted,
			"7 bytes of progress are left of 8"},
		"progress gone": {"training", chunk, func([]byte) []byte { return nil }, true, checkpoints.ErrCorrupted,
			"0 bytes of progress are left of 8"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			put(t, s, "chat", 1, 1)
			if err := s.PutTraining("run", nil, []byte("progress")); err != nil {
				t.Fatal(err)
			}
			edit(t, s, c.bucket, c.key, c.change)
			_, _, policy := s.Get(checkpoints.Ref{Name: "chat"})
			_, run := s.GetTraining("run")
			damaged, sound, prefix := policy, run, `cannot load policy "chat@1": `
			if c.run {
				damaged, sound, prefix = run, policy, `cannot load training "run": `
			}
			wantError(t, damaged, c.is, prefix+broken(s, c.why))
			if sound != nil {
				t.Errorf("and what was not damaged: %v", sound)
			}
			wantVersions(t, s, "chat@1")
			remove(t, s, "chat@1", false, 1) // what is damaged can be removed
			if _, _, err := s.Finish("run", "chat", sample(t, 2), epoch, "run"); err != nil {
				t.Error(err)
			}
		})
	}

	s := newStore(t)
	put(t, s, "chat", 1, 1)
	edit(t, s, "index", "index", func(b []byte) []byte {
		return reseal(bytes.Replace(b, []byte(`{"format":1`), []byte(`{"format":9`), 1))
	})
	for name, op := range operations(t, s, checkpoints.Ref{Name: "chat"}) {
		wantError(t, op(), checkpoints.ErrNewerFormat, prefix(name)+"cannot read store "+s.Path+
			": it is written in the newer format 9, this gearshift reads formats up to 1")
	}
	edit(t, s, "index", "index", func(b []byte) []byte { return b[1:] })
	if _, err := s.List(); !errors.Is(err, checkpoints.ErrCorrupted) || !strings.Contains(err.Error(), "index: its CRC-32C is ") {
		t.Errorf("List with a damaged index: %v", err)
	}
	edit(t, s, "index", "index", func(b []byte) []byte { return nil })
	_, err := s.List()
	wantError(t, err, checkpoints.ErrCorrupted, broken(s, "its index is missing"))
}
