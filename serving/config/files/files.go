// Package files detects changes of files by their content: a file may be rewritten
// within one tick of the clock and to the same size, or be touched and stay the same.
package files

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"
)

const (
	// small is the size up to which a file is read at each look. A larger one, such as a
	// store of policies, is read again when its size or time has changed.
	small = 1 << 20
	// settled is the age of a file's time from which a change would have another one.
	settled = 2 * time.Second
)

// Print stands for what a file holds. Two are equal if the contents are; the zero value is
// that of a file that is not there.
type Print struct {
	sum   [sha256.Size]byte
	state state
}

type state uint8

const (
	missing state = iota
	whole
	unreadable
	special // a pipe or a device, which is not read for a look
	hanging // it did not answer, and was not known before
)

// Looker looks at files again and again. The zero value is ready. It is for one goroutine.
type Looker struct {
	seen  map[string]seen
	guard Guard
}

// seen is a file at the last look.
type seen struct {
	print    Print
	info     os.FileInfo
	modified time.Time
	size     int64
	recent   bool // it may have changed since without another time
}

// Look is what the files hold now, by name. Links stand for what they lead to. A file that
// does not answer holds what it did before, as do all where the context ends.
func (l *Looker) Look(ctx context.Context, names []string) map[string]Print {
	prints, now := make(map[string]Print, len(names)), make(map[string]seen, len(names))
	for _, name := range names {
		if _, ok := now[name]; !ok {
			before, known := l.seen[name]
			looked, err := Within(ctx, &l.guard, name, func() (seen, error) { return look(name, before, known), nil })
			if err != nil {
				looked = before
				if !known {
					looked = seen{print: Print{state: hanging}}
				}
			}
			now[name] = looked
			prints[name] = now[name].print
		}
	}
	l.seen = now
	return prints
}

// look looks at a file, of which it may be known what it was before.
func look(name string, before seen, known bool) seen {
	info, err := os.Stat(name)
	switch {
	case os.IsNotExist(err):
		return seen{}
	case err != nil:
		return seen{print: Print{state: unreadable}}
	case !info.Mode().IsRegular():
		return seen{print: Print{state: special}}
	}
	next := seen{info: info, modified: info.ModTime(), size: info.Size()}
	next.recent = time.Since(next.modified) < settled
	if known && next.size > small && !before.recent && before.info != nil && os.SameFile(before.info, info) &&
		before.size == next.size && before.modified.Equal(next.modified) {
		next.print = before.print
		return next
	}
	next.print = printOf(name)
	return next
}

// printOf reads the file.
func printOf(name string) Print {
	f, err := openFile(name)
	if os.IsNotExist(err) {
		return Print{}
	}
	if err != nil {
		return Print{state: unreadable}
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() { // by now
		return Print{state: special}
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return Print{state: unreadable}
	}
	p := Print{state: whole}
	h.Sum(p.sum[:0])
	return p
}
