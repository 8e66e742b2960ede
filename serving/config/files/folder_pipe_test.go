//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gearshift/serving/config/files"
)

// A folder with a pipe or a device in it, also behind a link or further down, is refused by the file's
// name, and nothing is opened.
func TestFoldersOfRegularFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device":     func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		dir := t.TempDir()
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "parts"), 0o755), os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := files.CheckFolder(dir); err != nil {
			t.Errorf("regular files alone: %v", err)
		}
		path := filepath.Join(dir, "parts", "model.onnx")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if err := files.CheckFolder(dir); !errors.Is(err, files.ErrNotRegular) || !strings.Contains(err.Error(), path+" is no regular file but "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
