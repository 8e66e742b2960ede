//go:build unix

package files_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"gearshift/serving/config/files"
)

// A pipe that nobody writes to is not waited for.
func TestAPipeIsNotRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	var l files.Looker
	if l.Look(t.Context(), []string{name})[name] == (files.Print{}) {
		t.Error("the pipe counts as missing")
	}
}
