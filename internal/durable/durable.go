// Package durable writes files that appear whole and stay after a power cut: a temporary
// file is written and synced, renamed, and then its folder is synced, without which the new
// name may be gone. It also opens databases of bbolt that may be damaged: it verifies their pages,
// says what a damaged meta page means, and makes errors of panics.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Replace writes a file with the mode, and replaces an existing one.
func Replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := Beside(path)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Beside opens an empty file in the folder of path, of mode 0600, that is to become it. An
// error names the folder, since the file's own name means nothing to a user.
func Beside(path string) (*os.File, error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+".new-*")
	if fault := (*fs.PathError)(nil); errors.As(err, &fault) {
		return nil, fmt.Errorf("cannot make a file in the folder %s: %w", folder, fault.Err)
	}
	return f, err
}

// Rename renames a file, or folder, whose content is synced already.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return Folder(filepath.Dir(to))
}

// syncFile is replaced by tests.
var syncFile = (*os.File).Sync

// Folder syncs the names in a folder. Windows and some file systems cannot, and keep them
// in their own ways.
func Folder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = syncFile(f)
	if unsupported(err) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
