package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = zero.Add(1000 * time.Second)

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open("failover", path, now)
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
	late, err := Open("failover", path, now.Add(time.Hour))
	if err != nil || late.Term() != 4600 {
		t.Fatalf("an hour later: %v, term %d; want 4600", err, late.Term())
	}
	_ = late.Close()
}

func TestOneControllerHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := open(t, path)
	_, err := Open("failover", path, now)
	if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want that another controller holds it", err)
	}
	_ = f.Close()
	f = open(t, path)
	_ = f.Close()
}

func TestFilesThatAreNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a state file\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("failover", path, now); err == nil || !strings.Contains(err.Error(), "it is no such file, or is damaged") {
		t.Errorf("error %v", err)
	}
	if _, err := Open("failover", filepath.Join(path, "state"), now); err == nil || !strings.HasPrefix(err.Error(), "cannot open the failover state file") {
		t.Errorf("error %v", err)
	}
}
