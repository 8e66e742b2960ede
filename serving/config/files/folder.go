package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckFolder refuses a folder that holds anything except regular files and folders, links followed: to
// open a pipe or a device may take for ever. It opens no file. Of a folder that is not there it says nothing: its
// reader says which file it wants.
func CheckFolder(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if mode := info.Mode(); !mode.IsRegular() && !mode.IsDir() {
			return fmt.Errorf("%s %w but %s; want regular files alone", path, ErrNotRegular, kind(mode))
		}
		return nil
	})
}

// kind names a file that is neither regular nor a folder.
func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
