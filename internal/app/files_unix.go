//go:build unix

package app

import (
	"math"
	"syscall"
)

// fileLimit returns how many files the process may have open; zero is unknown.
func fileLimit() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(uint64(l.Cur), math.MaxInt32))
}
