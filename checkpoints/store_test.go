package checkpoints_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gearshift/checkpoints"
)

func TestPutAndGet(t *testing.T) {
	s := &checkpoints.Store{Path: filepath.Join(t.TempDir(), "store.db")}
	put(t, s, "chat", 1, 1)
	put(t, s, "chat", 2, 2)
	put(t, s, "code", 3, 1)
	wantSample(t, s, "chat", 2, 2)
	wantSample(t, s, "chat@1", 1, 1)
	wantSample(t, s, "code@1", 3, 1)

	info, err := os.Stat(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the store's mode is %v, want -rw-------", info.Mode())
	}
	if size := info.Size(); size > 128<<10 {
		t.Errorf("a store of three small policies takes %d bytes", size)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path), ".*")); err != nil || len(left) > 0 {
		t.Errorf("the making of the store left %v, %v", left, err)
	}
}

func TestEmptyFileBecomesAStore(t *testing.T) {
	s := newStore(t)
	if err := os.WriteFile(s.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	s.Warn = func(text string) { warnings = append(warnings, text) }
	if _, err := s.List(); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("List of an empty file: %v", err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "the file is empty") {
		t.Errorf("warnings about an empty file: %q", warnings)
	}
	put(t, s, "chat", 1, 1)
	wantSample(t, s, "chat", 1, 1)
}

func TestReadOnlyStoreIsReadable(t *testing.T) {
	s := newStore(t)
	put(t, s, "chat", 1, 1)
	if err := os.Chmod(s.Path, 0o400); err != nil {
		t.Fatal(err)
	}
	wantSample(t, s, "chat", 1, 1)
}

func TestRetention(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		s.Keep = 2
		for v := 1; v <= 2; v++ {
			put(t, s, "chat", uint64(v), v)
		}
		if v, removed, err := s.Put("chat", sample(t, 3), epoch.Add(3*time.Second)); v != 3 || !slices.Equal(removed, []int{1}) || err != nil {
			t.Errorf("Put = %d, %v, %v; want 3 in the place of 1", v, removed, err)
		}
		wantVersions(t, s, "chat@2", "chat@3")
		promote(t, s, "chat", 2)
		promote(t, s, "chat", 3) // and 2 is the previous
		for v := 4; v <= 6; v++ {
			put(t, s, "chat", uint64(v), v)
		}
		put(t, s, "code", 9, 1)
		wantVersions(t, s, "chat@2 previous", "chat@3 production", "chat@5", "chat@6", "code@1")
		wantSample(t, s, "chat@2", 2, 2)

		s.Keep = -1
		put(t, s, "chat", 7, 7)
		put(t, s, "chat", 8, 8)
		wantVersions(t, s, "chat@2 previous", "chat@3 production", "chat@5", "chat@6", "chat@7", "chat@8", "code@1")

		s.Keep = 0
		for v := 9; v <= 18; v++ {
			put(t, s, "chat", uint64(v), v)
		}
		list, err := s.List()
		if err != nil || len(list) != 10+2+1 {
			t.Errorf("%d entries, %v; want the newest 10 of chat, 2 with aliases and code", len(list), err)
		}
	})
}

func TestPromoteAndRollback(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		for v := 1; v <= 4; v++ {
			put(t, s, "chat", uint64(v), v)
		}
		put(t, s, "code", 9, 1)
		wantSample(t, s, "chat", 4, 4)
		promote(t, s, "chat", 1)
		promote(t, s, "chat", 1) // is no change
		wantVersions(t, s, "chat@1 production", "chat@2", "chat@3", "chat@4", "code@1")
		wantSample(t, s, "chat", 1, 1)

		promote(t, s, "chat", 3)
		wantSample(t, s, "chat@production", 3, 3)
		wantSample(t, s, "chat@previous", 1, 1)
		wantSample(t, s, "chat@newest", 4, 4)
		wantProduction(t, s, "chat@3")

		promote(t, s, "code", 1)
		wantProduction(t, s, "code@1")
		if v, err := s.Rollback("chat"); err != nil || v != 1 {
			t.Errorf("Rollback = %d, %v; want 1", v, err)
		}
		wantSample(t, s, "chat", 1, 1)
		wantProduction(t, s, "chat@1") // as after any promotion
		_, err := s.Rollback("chat")
		wantError(t, err, checkpoints.ErrNotFound,
			`cannot roll back policy "chat": no earlier version was in production; promote the one to return to`)
	})
}

// What a router has rolled back is left as after a rollback of the store's own.
func TestRestore(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		restore := func(name string, version int) {
			t.Helper()
			if err := s.Restore(name, version); err != nil {
				t.Errorf("Restore(%q, %d): %v", name, version, err)
			}
		}
		for v := 1; v <= 3; v++ {
			put(t, s, "chat", uint64(v), v)
			promote(t, s, "chat", v)
		}
		restore("chat", 2)
		wantVersions(t, s, "chat@1", "chat@2 production", "chat@3")
		promote(t, s, "chat", 3)
		put(t, s, "code", 9, 1)
		promote(t, s, "code", 1)
		restore("chat", 3) // in whose place another policy was promoted
		wantVersions(t, s, "chat@1", "chat@2 previous", "chat@3 production", "code@1 production")
		wantProduction(t, s, "chat@3")
		wantError(t, s.Restore("chat", 4), checkpoints.ErrNotFound, `cannot roll back policy "chat": policy "chat" has no version 4; it has 1, 2, 3`)
	})
}

// What goes by force leaves none in production, until it is rolled back.
func TestRollbackAfterRemoval(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		for v := 1; v <= 2; v++ {
			put(t, s, "chat", uint64(v), v)
			promote(t, s, "chat", v)
		}
		remove(t, s, "chat@2", true, 2)
		if v, err := s.Rollback("chat"); err != nil || v != 1 {
			t.Errorf("Rollback = %d, %v; want 1", v, err)
		}
		wantProduction(t, s, "chat@1")
	})
}

func TestRemove(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		for v := 1; v <= 4; v++ {
			put(t, s, "chat", uint64(v), v)
		}
		promote(t, s, "chat", 2)
		promote(t, s, "chat", 3)
		remove(t, s, "chat@4", false, 4)
		put(t, s, "chat", 5, 5) // 4 is not given again

		const refusal = `policy "chat@3" is in production; promote another version first, or force its removal`
		for _, ref := range []checkpoints.Ref{{Name: "chat"}, {Name: "chat", Version: 3}, {Name: "chat", Alias: "production"}} {
			_, err := s.Remove(ref, false)
			wantError(t, err, checkpoints.ErrProduction, refusal)
		}
		remove(t, s, "chat@previous", false, 2)
		wantVersions(t, s, "chat@1", "chat@3 production", "chat@5")
		if _, err := s.Rollback("chat"); !errors.Is(err, checkpoints.ErrNotFound) {
			t.Errorf("Rollback to a removed version: %v", err)
		}
		remove(t, s, "chat@3", true, 3)
		wantSample(t, s, "chat", 5, 5)
		if _, err := s.Production(); !errors.Is(err, checkpoints.ErrNotFound) {
			t.Errorf("Production after its removal: %v", err)
		}

		remove(t, s, "chat", false, 1, 5)
		wantVersions(t, s)
		put(t, s, "chat", 6, 6)
		promote(t, s, "chat", 6)
		remove(t, s, "chat", true, 6)
		put(t, s, "chat", 7, 7)
		wantVersions(t, s, "chat@7")
	})
}

func TestMissingThingsAreNamed(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		ref := checkpoints.Ref{Name: "chat"}
		missing := "no checkpoint store at " + s.Path + "; `gearshift train` makes one"
		for name, op := range operations(t, s, ref) {
			if name == "Put" || name == "PutRule" || name == "PutTraining" {
				continue
			}
			if err := op(); !errors.Is(err, checkpoints.ErrNotFound) || err.Error() != prefix(name)+missing {
				t.Errorf("%s without a store: %v", name, err)
			}
		}
		if _, err := os.Stat(s.Path); err == nil {
			t.Error("an operation on a missing store made one")
		}

		if err := s.PutTraining("run", nil, nil); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Get(ref)
		wantError(t, err, checkpoints.ErrNotFound, `no policy "chat" in store `+s.Path+"; it has no policy yet: `gearshift train` makes one")
		put(t, s, "code", 1, 1)
		put(t, s, "chat.2", 1, 1)
		_, _, err = s.Get(ref)
		wantError(t, err, checkpoints.ErrNotFound, `no policy "chat" in store `+s.Path+"; it has chat.2, code")
		put(t, s, "chat", 1, 1)
		put(t, s, "chat", 2, 2)
		_, err = s.Lookup(checkpoints.Ref{Name: "chat", Version: 7})
		wantError(t, err, checkpoints.ErrNotFound, `policy "chat" has no version 7; it has 1, 2`)
		for _, alias := range []string{"production", "previous", "canary"} {
			_, err = s.Lookup(checkpoints.Ref{Name: "chat", Alias: alias})
			wantError(t, err, checkpoints.ErrNotFound, `policy "chat" has no version called "`+alias+`"`)
		}
		for _, version := range []int{0, 3} {
			err = s.Promote("chat", version, "")
			wantError(t, err, checkpoints.ErrNotFound, fmt.Sprintf(`cannot promote policy "chat": policy "chat" has no version %d; it has 1, 2`, version))
		}
		_, err = s.Production()
		wantError(t, err, checkpoints.ErrNotFound, "no policy of store "+s.Path+" is in production; `gearshift policy promote` puts one there")
		_, err = s.GetTraining("other")
		wantError(t, err, checkpoints.ErrNotFound, `no progress of a training "other" in store `+s.Path)
	})
}

func TestRefusedWritesMakeNoStore(t *testing.T) {
	s := newStore(t)
	_, _, err := s.Put("a:b", sample(t, 1), epoch)
	wantError(t, err, checkpoints.ErrInvalidName, `cannot store policy: policy name "a:b" may hold only a-z, 0-9, '.', '_' and '-'`)
	bad := sample(t, 1)
	bad.Network = nil
	_, _, err = s.Put("chat", bad, epoch)
	wantError(t, err, checkpoints.ErrContent, `cannot store policy "chat": cannot encode checkpoint: it has no network`)
	err = s.PutTraining("a\x00b", nil, nil)
	wantError(t, err, checkpoints.ErrInvalidName, `cannot store training: run name "a\x00b" is not 1 to 200 bytes of printable text`)
	err = s.PutTraining("a", []byte("{"), nil)
	if err == nil || err.Error() != `cannot store training "a": its metadata is not JSON` {
		t.Errorf("PutTraining with bad metadata: %v", err)
	}
	if _, err := os.Stat(s.Path); err == nil {
		t.Error("a refused write made a store")
	}
}

func TestUnusablePaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("tasks:\n- chat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		dir:                          "store " + dir + " is corrupted, or no checkpoint store: it is not a regular file; move it away or restore a copy",
		filepath.Join(file, "store"): "cannot open store: stat " + file + "/store: not a directory",
		file:                         "store " + file + " is corrupted, or no checkpoint store: invalid database; move it away or restore a copy",
	} {
		s := &checkpoints.Store{Path: path}
		for name, op := range operations(t, s, checkpoints.Ref{Name: "chat"}) {
			if err := op(); err == nil || err.Error() != prefix(name)+text {
				t.Errorf("%s: error\n\t%v\nwant\n\t%s", name, err, text)
			}
		}
	}
	under := &checkpoints.Store{Path: filepath.Join(dir, strings.Repeat("x", 250), "store")}
	if err := os.WriteFile(filepath.Dir(under.Path), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := under.Put("chat", sample(t, 1), epoch); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Put under a file: %v", err)
	}
}

// Whether a store can be written is known before there is anything to write, and asking
// leaves nothing behind.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "new")
	s := &checkpoints.Store{Path: filepath.Join(folder, "store")}
	// The folder of a mistyped path is not made.
	missing := "cannot create store " + s.Path + ": cannot make a file in the folder " + folder + ": no such file or directory"
	_, _, put1 := s.Put("chat", sample(t, 1), epoch)
	for _, err := range []error{s.Writable(), put1} {
		if err == nil || err.Error() != missing {
			t.Errorf("a store in no folder: %v, want %s", err, missing)
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Writable(); err != nil {
		t.Errorf("a store to be made: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(s.Path)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	put(t, s, "chat", 1, 1)
	if err := s.Writable(); err != nil {
		t.Errorf("a store: %v", err)
	}
	for path, want := range map[string]string{
		"":                             "cannot create store: it has no name",
		dir:                            "it is not a regular file",
		filepath.Join(s.Path, "store"): "not a directory",
		filepath.Join(dir, strings.Repeat("x", 300)): "file name too long",
	} {
		if err := (&checkpoints.Store{Path: path}).Writable(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", path, err, want)
		}
	}
	if os.Geteuid() == 0 {
		return // may write anything
	}
	if err := os.Chmod(s.Path, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := s.Writable(); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a store that may only be read: %v", err)
	}
}

// operations is every method of a store that touches the file.
func operations(t *testing.T, s *checkpoints.Store, ref checkpoints.Ref) map[string]func() error {
	c := sample(t, 1)
	return map[string]func() error{
		"Put":         func() error { _, _, err := s.Put(ref.Name, c, epoch); return err },
		"Get":         func() error { _, _, err := s.Get(ref); return err },
		"Lookup":      func() error { _, err := s.Lookup(ref); return err },
		"List":        func() error { _, err := s.List(); return err },
		"Remove":      func() error { _, err := s.Remove(ref, true); return err },
		"Promote":     func() error { return s.Promote(ref.Name, ref.Version, "") },
		"Rollback":    func() error { _, err := s.Rollback(ref.Name); return err },
		"Restore":     func() error { return s.Restore(ref.Name, ref.Version) },
		"PutRule":     func() error { _, _, err := s.PutRule("static:small", epoch); return err },
		"LookupRule":  func() error { _, err := s.LookupRule("static:small"); return err },
		"Back":        func() error { _, err := s.Back(); return err },
		"Before":      func() error { _, _, err := s.Before(); return err },
		"Withdraw":    func() error { return s.Withdraw() },
		"Production":  func() error { _, err := s.Production(); return err },
		"PutTraining": func() error { return s.PutTraining("run", nil, []byte("progress")) },
		"GetTraining": func() error { _, err := s.GetTraining("run"); return err },
		"Finish":      func() error { _, _, err := s.Finish("run", ref.Name, c, epoch); return err },
		"Forget":      func() error { return s.Forget(func(string) bool { return true }) },
	}
}

// prefix is what an operation on policy chat says before the cause.
func prefix(operation string) string {
	switch operation {
	case "Promote":
		return `cannot promote policy "chat": `
	case "Rollback", "Restore":
		return `cannot roll back policy "chat": `
	}
	return ""
}

func promote(t *testing.T, s *checkpoints.Store, name string, version int) {
	t.Helper()
	if err := s.Promote(name, version, ""); err != nil {
		t.Fatalf("Promote(%q, %d): %v", name, version, err)
	}
}

func remove(t *testing.T, s *checkpoints.Store, ref string, force bool, want ...int) {
	t.Helper()
	r, err := checkpoints.ParseRef(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Remove(r, force); err != nil || !slices.Equal(got, want) {
		t.Fatalf("Remove(%s) = %v, %v; want %v", ref, got, err, want)
	}
}

func wantProduction(t *testing.T, s *checkpoints.Store, want string) {
	t.Helper()
	if ref, err := s.Production(); err != nil || ref.String() != want {
		t.Errorf("Production = %v, %v; want %s", ref, err, want)
	}
}

// wantVersions compares List, each entry as "name@version alias alias".
func wantVersions(t *testing.T, s *checkpoints.Store, want ...string) {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, strings.Join(append([]string{e.Ref().String()}, e.Aliases...), " "))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the store has\n\t%q\nwant\n\t%q", got, want)
	}
}
