package states

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// saved is the bytes of a file in which the states 1 to 3 were saved in turn.
func saved(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	file := At(path)
	other, err := file.Open(Rollout, now)
	if err == nil {
		err = errors.Join(other.Save([]byte("versions")), other.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	for i := range 3 {
		if err := f.Save(bytes.Repeat([]byte{byte('1' + i)}, 300)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// reopened opens a file of these bytes, and closes it.
func reopened(t *testing.T, text []byte) (State, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := At(path).Open(Failover, now)
	if err == nil {
		_ = f.Close()
	}
	return f, err
}

// TestADamagedMetaPage: the state of the transaction before is read, and the file says so.
func TestADamagedMetaPage(t *testing.T) {
	text := saved(t)
	page := os.Getpagesize()
	states := map[string]bool{}
	for meta := range 2 {
		damaged := bytes.Clone(text)
		damaged[meta*page+40] ^= 1
		f, err := reopened(t, damaged)
		if err != nil {
			t.Fatal(err)
		}
		want := "it seems to be the older page, so nothing is lost"
		if f.Last()[0] == '2' {
			want = "is lost: the last changes to it"
		}
		if states[string(f.Last()[:1])] = true; !strings.Contains(f.Trouble(), want) || !strings.HasPrefix(f.Trouble(), fmt.Sprintf("meta page %d of 2 is damaged", meta+1)) {
			t.Errorf("meta page %d: state %.1s, trouble %q", meta+1, f.Last(), f.Trouble())
		}
	}
	if !states["2"] || !states["3"] {
		t.Errorf("states %v; want the last one, and the one before", states)
	}
	if f, err := reopened(t, text); err != nil || f.Trouble() != "" {
		t.Errorf("whole: %v, %q", err, f.Trouble())
	}
}

// TestFlippedBytes: whatever byte is flipped, the file opens with a state that was saved, or is refused in
// one line. What is not the last state is never given without a word.
func TestFlippedBytes(t *testing.T) {
	const every = 23 // of the bytes that are written
	text := saved(t)
	refused, written := 0, 0
	for at := range text {
		if text[at] == 0 {
			continue
		}
		if written++; written%every != 0 {
			continue
		}
		damaged := bytes.Clone(text)
		damaged[at] ^= 0x10
		f, err := reopened(t, damaged)
		switch {
		case err != nil:
			if refused++; !strings.Contains(err.Error(), "move it away") && !strings.Contains(err.Error(), "run the version that wrote it") || strings.Contains(err.Error(), "\n") {
				t.Errorf("byte %d: %v", at, err)
			}
		case len(f.Last()) == 300 && f.Last()[0] == '3' && len(bytes.Trim(f.Last(), "3")) == 0:
		case len(f.Last()) == 300 && f.Last()[0] == '2' && len(bytes.Trim(f.Last(), "2")) == 0 && f.Trouble() != "":
		default:
			t.Errorf("byte %d: state %q, trouble %q", at, f.Last(), f.Trouble())
		}
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// TestADiskThatTakesNoWrites: the state is read all the same, and the term is one that no earlier run had.
func TestADiskThatTakesNoWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, saved(t), 0o600); err != nil {
		t.Fatal(err)
	}
	openFile = func(name string, _ int, _ os.FileMode) (*os.File, error) { return os.Open(name) }
	defer func() { openFile = os.OpenFile }()
	f := open(t, path)
	defer func() { _ = f.Close() }()
	if f.Term() != 1001 || f.Last()[0] != '3' || !strings.Contains(f.Trouble(), "it cannot be written now") {
		t.Errorf("term %d, state %.1s, trouble %q", f.Term(), f.Last(), f.Trouble())
	}
	if err := f.Save([]byte("4")); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("Save: %v", err)
	}
}
