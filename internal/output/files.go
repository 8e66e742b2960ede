package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gearshift/internal/durable"
)

// Install writes a file as [Into] does. One that is there is replaced only by force.
func Install(path string, data []byte, force bool) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return fmt.Errorf("%s already exists; --force replaces it", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Into(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Into has a file written that appears whole, with the permissions of one that is
// there. What is no regular file, as a pipe, is written as it comes.
func Into(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	if err != nil {
		return durable.Replace(path, 0o644, write)
	}
	if info.Mode().IsRegular() {
		return durable.Replace(path, info.Mode().Perm(), write)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Whole writes a file that appears whole, and replaces one that is there.
func Whole(path string, data []byte, mode os.FileMode) error {
	return durable.Replace(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// mostInput bounds the input.
const mostInput = 64 << 20

// Read reads the file, or standard input for -, and says what it is called.
func Read(path string, stdin io.Reader) (text []byte, name string, err error) {
	if name = path; path == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, name, err
		}
		defer f.Close()
		stdin = f
	}
	text, err = io.ReadAll(io.LimitReader(stdin, mostInput+1))
	if err == nil && len(text) > mostInput {
		err = fmt.Errorf("%s: larger than %d MiB", name, mostInput>>20)
	}
	return text, name, err
}
