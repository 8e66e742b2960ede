package durable

import (
	"errors"
	"syscall"
)

// unsupported reports whether the error says that the file system cannot sync a folder.
func unsupported(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
