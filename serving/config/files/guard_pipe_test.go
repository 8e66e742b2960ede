//go:build unix

package files_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"gearshift/serving/config/files"
)

func TestAPipeIsRefusedAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	var g files.Guard
	if _, err := g.Read(name); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("Read: %v, want ErrNotRegular", err)
	}
	if !files.IsPipe(name) || files.IsPipe(t.TempDir()) {
		t.Error("what is a pipe is not told")
	}
}
