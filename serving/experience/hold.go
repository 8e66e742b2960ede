//go:build !windows && !plan9 && !solaris && !aix

package experience

import (
	"errors"
	"os"
	"syscall"
)

// hold marks the file as written to until it is closed, and says whether nobody else
// had: no other process, and no other open file of this one. Where the file system
// knows no locks nobody ever has.
func hold(file *os.File) bool {
	return !errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
