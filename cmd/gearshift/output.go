package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"
)

// output is the standard output. It keeps its first fault, since no command has
// succeeded whose results did not all get through.
type output struct {
	io.Writer
	fault error
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.fault == nil {
		o.fault = err
	}
	return n, err
}

// printJSON writes v for people and programs alike.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeWhole writes a file that appears whole, in place of one that is there.
func writeWhole(path string, data []byte, mode os.FileMode) error {
	return writeStream(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeInto has a file written that appears whole, with the permissions of one that is
// there. What is no regular file, as a pipe, is written as it comes.
func writeInto(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	if err != nil {
		return writeStream(path, 0o644, write)
	}
	if info.Mode().IsRegular() {
		return writeStream(path, info.Mode().Perm(), write)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writeStream is [writeWhole] of what comes bit by bit.
func writeStream(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// isTerminal says whether a person watches w, and lines may overwrite each other.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
