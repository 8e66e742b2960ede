//go:build unix

package engineserver

import (
	"syscall"
	"time"
)

// processorTime returns how much time of processors the program has used; false if that is unknown.
func processorTime() (time.Duration, bool) {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0, false
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano()), true
}
