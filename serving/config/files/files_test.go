package files_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gearshift/serving/config/files"
)

// put writes a file whose time is given.
func put(t *testing.T, name string, data []byte, modified time.Time) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, modified, modified); err != nil {
		t.Fatal(err)
	}
}

func TestChangesAreThoseOfTheContent(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	long, now := time.Now().Add(-time.Hour), time.Now()
	big := bytes.Repeat([]byte("a"), 2<<20)
	var l files.Looker
	look := func() files.Print { return l.Look(t.Context(), []string{name})[name] }
	if look() != (files.Print{}) {
		t.Error("a file that is not there has a print")
	}
	before := look()
	for _, step := range []struct {
		what    string
		do      func()
		changes bool
	}{
		{"it is there", func() { put(t, name, []byte("a: 1\n"), long) }, true},
		{"nothing happens", func() {}, false},
		{"the same size and time, as cp -p leaves it", func() { put(t, name, []byte("a: 2\n"), long) }, true},
		{"touched", func() { put(t, name, []byte("a: 2\n"), now) }, false},
		{"replaced by the same", func() {
			put(t, name+".new", []byte("a: 2\n"), now)
			if err := os.Rename(name+".new", name); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"emptied", func() { put(t, name, nil, now) }, true},
		{"large", func() { put(t, name, big, long) }, true},
		{"large, and touched", func() { put(t, name, big, long.Add(time.Second)) }, false},
		{"large, and another byte", func() { big[1<<20] = 'b'; put(t, name, big, long.Add(time.Minute)) }, true},
		{"large, and another byte at once", func() { big[0] = 'b'; put(t, name, big, now) }, true},
		{"large, and another byte within a tick", func() { big[0] = 'c'; put(t, name, big, now) }, true},
		{"gone", func() { os.Remove(name) }, true},
		{"a folder in its place", func() {
			if err := os.Mkdir(name, 0o700); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		step.do()
		after := look()
		if changed := after != before; changed != step.changes {
			t.Errorf("%s: changed %v", step.what, changed)
		}
		before = after
	}
}

// Kubernetes mounts files as links into a folder that it swaps.
func TestAFolderOfLinksThatIsSwapped(t *testing.T) {
	dir := t.TempDir()
	for version, text := range map[string]string{"v1": "a: 1\n", "v2": "a: 2\n", "v3": "a: 2\n"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, version, "file"), []byte(text), time.Unix(1, 0))
	}
	data, name := filepath.Join(dir, "..data"), filepath.Join(dir, "file")
	swap := func(version string) {
		next := filepath.Join(dir, "..next")
		if err := os.Symlink(version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, data); err != nil {
			t.Fatal(err)
		}
	}
	swap("v1")
	if err := os.Symlink(filepath.Join("..data", "file"), name); err != nil {
		t.Fatal(err)
	}
	var l files.Looker
	look := func() files.Print { return l.Look(t.Context(), []string{name})[name] }
	first := look()
	swap("v2")
	second := look()
	swap("v3")
	if third := look(); first == second || second != third {
		t.Errorf("changed %v, then %v; want true, false", first != second, second != third)
	}
}
