package experience

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// files is the file written to and those that were full. One goroutine uses it.
type files struct {
	path   string
	most   int64 // bytes in a file
	keep   int   // files, the one written to among them
	header []byte
	now    func() time.Time
	create func(path string) (*os.File, error)

	file *os.File // nil after a failed write
	size int64
}

// open begins a file with the header. One that is there gets another name first:
// it is of another run, or its last line may break off. If it is of a server that runs,
// that one goes on writing to it.
func (f *files) open() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	if err := f.retire(); err != nil {
		return err
	}
	file, err := f.create(f.path)
	if err != nil {
		return err
	}
	if !hold(file) {
		return errors.Join(fmt.Errorf("%s: another server begins to write to it", f.path), file.Close())
	}
	if _, err := file.Write(f.header); err != nil { // an empty file is not kept under another name
		return errors.Join(err, file.Truncate(0), file.Close())
	}
	f.file, f.size = file, int64(len(f.header))
	return f.prune()
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
}

// retire gives a file that is there the name of a full one.
func (f *files) retire() error {
	switch info, err := os.Stat(f.path); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", f.path)
	case info.Size() == 0:
		return nil
	}
	full, err := f.list()
	if err != nil {
		return err
	}
	name := f.full(f.now())
	if n := len(full); n > 0 && name <= full[n-1] { // in the same millisecond, or the clock was set back
		name = f.after(full[n-1])
	}
	if err := os.Rename(f.path, name); !errors.Is(err, os.ErrNotExist) { // else another server was quicker
		return err
	}
	return nil
}

// stamp is in the names of full files, which sort by time.
const stamp = "20060102T150405.000Z"

var stampForm = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z$`)

// full is the name of a file closed at that time.
func (f *files) full(at time.Time) string {
	return f.stem() + at.UTC().Format(stamp) + filepath.Ext(f.path)
}

// after is the next name after that of a full file.
func (f *files) after(full string) string {
	at, err := time.Parse(stamp, full[len(f.stem()):][:len(stamp)])
	if err != nil { // a time that never was, such as the 40th of a month
		at = f.now()
	}
	return f.full(at.Add(time.Millisecond))
}

func (f *files) stem() string { return strings.TrimSuffix(f.path, filepath.Ext(f.path)) + "-" }

// list is the full files, the oldest first.
func (f *files) list() ([]string, error) {
	folder, stem := filepath.Split(f.stem())
	entries, err := os.ReadDir(filepath.Clean(folder + "."))
	var full []string
	for _, e := range entries {
		name, own := strings.CutPrefix(e.Name(), stem)
		if name, ok := strings.CutSuffix(name, filepath.Ext(f.path)); own && ok && stampForm.MatchString(name) {
			full = append(full, folder+e.Name())
		}
	}
	slices.Sort(full)
	return full, err
}

// skew is by how much the clocks of file systems and routers differ at most.
const skew = time.Hour

// mostFiles bounds the files, however short they are.
const mostFiles = 1000

// kept is a full file.
type kept struct {
	path string
	size int64
	last time.Time // it was written to
	bare bool      // it has no row
	held bool      // another server still writes to it: it is not full
}

// prune removes the full files for which there is no room in addition to the one that
// is written to, and nothing else: a file that another server still writes to is not
// full. Bytes count, not files: a server that dies and comes
// back again and again leaves many short ones. First go those without a row, which starts
// leave of which none is needed, as far as there are more than keep files; then those that
// were written to the longest ago.
func (f *files) prune() error {
	paths, err := f.list()
	if err != nil {
		return err
	}
	room := int64(f.keep-1) * f.most
	many := len(paths) >= f.keep
	var full []kept
	for _, path := range paths {
		if k := look(path, f.now()); !k.held {
			k.bare = many && isBare(path)
			room -= k.size
			full = append(full, k)
		}
	}
	slices.SortStableFunc(full, func(a, b kept) int {
		if a.bare != b.bare {
			return cmp.Compare(rank(b.bare), rank(a.bare))
		}
		return a.last.Compare(b.last)
	})
	for n, k := len(full), 0; k < len(full); k++ {
		fits := room >= 0 && n < max(f.keep, mostFiles)
		if fits && !(full[k].bare && n >= f.keep) {
			return nil
		}
		if err := os.Remove(full[k].path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		n, room = n-1, room+full[k].size
	}
	return nil
}

func rank(first bool) int {
	if first {
		return 1
	}
	return 0
}

// isBare says whether a file ends with its first line, the header, or within it. One
// that cannot be read counts as one with rows.
func isBare(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // nothing was written
	in := bufio.NewReader(file)
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		_, err = in.ReadSlice('\n')
	}
	if err == nil {
		_, err = in.ReadByte()
	}
	return errors.Is(err, io.EOF)
}

// look says how large a file is, when it was last written to, and whether a server still
// does.
func look(path string, now time.Time) kept {
	k := kept{path: path}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return k
	}
	if k.last, k.size = info.ModTime(), info.Size(); k.last.After(now.Add(skew)) {
		k.last = time.Time{} // the clock has been set back since: it is older than what came after
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0) // NFS locks what may be written to alone
	if err != nil {
		return k
	}
	defer func() { _ = file.Close() }() // nothing was written
	k.held = !hold(file)
	return k
}

// write appends whole lines, to a new file if the present one would be too long or was
// deleted. After an error the next write begins a new file: a line may be cut in the
// middle of this one.
func (f *files) write(lines []byte) error {
	full := f.size+int64(len(lines)) > f.most && f.size > int64(len(f.header))
	if f.file != nil && (full || deleted(f.file, f.path)) {
		if err := f.close(); err != nil {
			return err
		}
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	n, err := f.file.Write(lines)
	f.size += int64(n)
	if err != nil {
		return errors.Join(err, f.close())
	}
	return nil
}

func (f *files) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file, f.size = nil, 0
	return err
}
