package files_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/config/files"
)

// mount is a file system that hangs until it is mended.
type mount struct {
	mended chan struct{}
	opened atomic.Int32
}

func (m *mount) open(name string) (files.File, error) {
	m.opened.Add(1)
	<-m.mended
	return os.Open(name)
}

func TestReadsOfAHungMountEndInTime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	put(t, name, []byte("text"), time.Now())
	synctest.Test(t, func(t *testing.T) {
		m := &mount{mended: make(chan struct{})}
		g := files.Guard{Open: m.open}
		for range 5 {
			before := time.Now()
			if _, err := g.Read(name); !errors.Is(err, files.ErrHangs) {
				t.Fatalf("Read: %v, want ErrHangs", err)
			}
			if took := time.Since(before); took != 5*time.Second {
				t.Errorf("took %v, want five seconds", took)
			}
		}
		if n := m.opened.Load(); n != 1 {
			t.Errorf("%d reads are left hanging, want one", n)
		}
		close(m.mended)
		synctest.Wait()
		if text, err := g.Read(name); err != nil || string(text) != "text" {
			t.Errorf("once it answers: %q, %v", text, err)
		}
	})
}

func TestAnOperationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g files.Guard
		ctx, stop := context.WithCancel(t.Context())
		mended := make(chan struct{})
		time.AfterFunc(time.Second, stop)
		before := time.Now()
		_, err := files.Within(ctx, &g, "file", func() (int, error) { <-mended; return 1, nil })
		if !errors.Is(err, context.Canceled) || time.Since(before) != time.Second {
			t.Errorf("%v after %v", err, time.Since(before))
		}
		close(mended)
	})
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	var g files.Guard
	if _, err := g.Read(t.TempDir()); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := g.Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	name := filepath.Join(t.TempDir(), "large")
	put(t, name, bytes.Repeat([]byte("x"), 65<<20), time.Now())
	if _, err := g.Read(name); err == nil {
		t.Error("a file of 65 MiB is read")
	}
}
