//go:build !windows && !plan9 && !solaris && !aix

package experience

import (
	"errors"
	"os"
	"syscall"
)

// hold marks the file as written to until it is closed. It reports whether the file was
// free: not marked by another process, nor by another open file of this one. Where the file
// system knows no locks every file is.
func hold(file *os.File) bool {
	return !errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// deleted says whether the open file has no name left, here or in another folder. The
// path is asked too, since some file systems count no names.
func deleted(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	if info, ok := open.Sys().(*syscall.Stat_t); !ok || info.Nlink > 0 {
		return false
	}
	named, err := os.Stat(path)
	return err != nil || !os.SameFile(open, named)
}
