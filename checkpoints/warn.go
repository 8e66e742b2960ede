package checkpoints

import (
	"fmt"
	"io"
	"os"
	"sync"

	"gearshift/internal/durable"
)

// lost says what a damaged meta page means; empty if none is.
func lost(file io.ReaderAt, pageSize int) string {
	text := durable.Lost(file, pageSize, "the store", "the last promotion, import, or progress of a training")
	if text == "" {
		return ""
	}
	return text + ". Look at gearshift policy ls, and restore a copy if something is missing; the next write repairs the page"
}

// warned are the warnings that were given, so that a server which looks each second does
// not repeat them.
var warned sync.Map

// warn reports damage that bbolt has worked around, once.
func (s *Store) warn(text string) {
	if text == "" {
		return
	}
	text = fmt.Sprintf("store %s: %s", s.Path, text)
	if _, again := warned.LoadOrStore(text, true); again {
		return
	}
	if s.Warn != nil {
		s.Warn(text)
		return
	}
	fmt.Fprintln(os.Stderr, "gearshift: warning: "+text)
}
