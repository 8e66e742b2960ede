//go:build !windows && !plan9 && !solaris && !aix

package checkpoints

import (
	"os"
	"syscall"
)

// unlock gives up bbolt's lock of a file that stays mapped: the map keeps the
// lock of a closed file alive.
func unlock(file *os.File) { _ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
