//go:build !windows && !plan9 && !solaris && !aix

package operate

import (
	"os"
	"syscall"
)

// lock waits until no other process or file has the lock, and takes it until the
// file is closed.
func lock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_EX) }
