package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// synced notes what is synced, and with which error.
func synced(t *testing.T, err error) *[]string {
	t.Helper()
	var names []string
	before := syncFile
	syncFile = func(f *os.File) error {
		names = append(names, f.Name())
		return err
	}
	t.Cleanup(func() { syncFile = before })
	return &names
}

func TestTheFolderIsSyncedOnceTheFileIsThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	names := synced(t, nil)
	for _, text := range []string{"one", "two"} {
		if err := Replace(path, 0o640, write(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if !slices.Equal(*names, []string{dir, dir}) {
		t.Errorf("synced %q, want the folder each time", *names)
	}
}

func TestAFailedWriteLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Replace(path, 0o600, write("before")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := Replace(path, 0o600, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(dir)
	if text, _ := os.ReadFile(path); err != nil || len(entries) != 1 || string(text) != "before" {
		t.Errorf("%v: %q, %v", entries, text, err)
	}
}

func TestAFolderThatCannotBeSynced(t *testing.T) {
	synced(t, &os.PathError{Op: "sync", Err: syscall.EINVAL})
	if err := Folder(t.TempDir()); err != nil {
		t.Errorf("a file system without it: %v", err)
	}
	synced(t, &os.PathError{Op: "sync", Err: syscall.EIO})
	if err := Folder(t.TempDir()); err == nil {
		t.Error("an error of the disk is ignored")
	}
}
