//go:build onnx && cgo && unix

package onnx

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe is refused by its name, and not opened, which would wait for a writer.
func TestAPipeIsNoModel(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, decoder := Open(dir, Options{})
	_, classifier := OpenClassifier(dir, 0, Options{})
	_, layout := ReadLayout(dir)
	for _, err := range []error{decoder, classifier, layout} {
		if err == nil || !strings.Contains(err.Error(), path+": it is no regular file") {
			t.Error(err)
		}
	}
}
