// Package durable writes files that appear whole and stay after a power cut: a temporary
// file is written and synced, renamed, and then its folder is synced, without which the new
// name may be gone. It also opens databases of bbolt that may be damaged: it verifies their pages,
// says what a damaged meta page means, and makes errors of panics.
package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Replace writes a file with the mode, and replaces an existing one.
func Replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
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
