package durable

import (
	"errors"
	"syscall"
)

// unsupported says that the file system has no such thing as the sync of a folder.
func unsupported(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
