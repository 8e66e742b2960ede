package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// patience is how long an operation on a file may take, unless a [Guard] has another.
const patience = 5 * time.Second

// mostBytes bounds what is read of a file.
const mostBytes = 64 << 20

var (
	// ErrHangs says that a file, or where it lies, does not answer.
	ErrHangs = errors.New("does not answer; its file system may hang")
	// ErrNotRegular is returned for a pipe, a device or a folder instead of a file.
	ErrNotRegular = errors.New("is no regular file")
)

// Guard runs operations on files that may hang. Each has a goroutine of its own, which
// the caller leaves behind when it takes too long. There is one at most for a name: while
// an operation hangs, others on the same file fail. The zero value is ready. Its methods
// may be called from any goroutine.
type Guard struct {
	// Open opens a file for reading; nil is the system's.
	Open func(name string) (File, error)
	// Patience is how long an operation may take; zero is five seconds.
	Patience time.Duration

	mu   sync.Mutex // protects busy
	busy map[string]chan struct{}
}

// File is an open file.
type File interface {
	io.ReadCloser
	Stat() (os.FileInfo, error)
}

// openFile does not wait for the other end of a pipe.
func openFile(name string) (File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Read is what a regular file holds. The error is ErrHangs, ErrNotRegular or one of the
// system.
func (g *Guard) Read(name string) ([]byte, error) {
	return Within(context.Background(), g, name, func() ([]byte, error) {
		open := g.Open
		if open == nil {
			open = openFile
		}
		f, err := open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // nothing was written
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s %w", name, ErrNotRegular)
		}
		data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
		if len(data) > mostBytes {
			return nil, fmt.Errorf("%s is larger than %d MiB", name, mostBytes>>20)
		}
		return data, err
	})
}

// Within is the result of an operation on a file. If that takes too long, or the context
// ends, the error is ErrHangs or the context's, and the operation is left behind: it must
// change nothing but what it returns and the file.
func Within[T any](ctx context.Context, g *Guard, name string, operation func() (T, error)) (result T, err error) {
	late := time.NewTimer(cmp.Or(g.Patience, patience))
	defer late.Stop()
	done, err := g.begin(ctx, name, late.C)
	if err != nil {
		return result, err
	}
	type outcome struct {
		result T
		err    error
	}
	out := make(chan outcome, 1)
	go func() {
		defer g.end(name, done)
		r, err := operation()
		out <- outcome{r, err}
	}()
	select {
	case o := <-out:
		return o.result, o.err
	case <-ctx.Done():
		return result, ctx.Err()
	case <-late.C:
		return result, fmt.Errorf("%s %w", name, ErrHangs)
	}
}

// begin waits until no other operation is on the file.
func (g *Guard) begin(ctx context.Context, name string, late <-chan time.Time) (done chan struct{}, err error) {
	for {
		g.mu.Lock()
		before, busy := g.busy[name]
		if !busy {
			if g.busy == nil {
				g.busy = map[string]chan struct{}{}
			}
			done = make(chan struct{})
			g.busy[name] = done
			g.mu.Unlock()
			return done, nil
		}
		g.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, fmt.Errorf("%s %w", name, ErrHangs)
		}
	}
}

func (g *Guard) end(name string, done chan struct{}) {
	g.mu.Lock()
	delete(g.busy, name)
	g.mu.Unlock()
	close(done)
}

// IsPipe reports whether a name leads to a pipe or another stream, which can be read once.
func IsPipe(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}
