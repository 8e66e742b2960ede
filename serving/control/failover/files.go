package failover

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"net/http"

	"gearshift/serving"
	"gearshift/serving/engines/agents"
	"gearshift/serving/openai/wire"
)

// models has the files that agents may fetch: a folder with one for each model.
type models struct {
	dir string

	mu    sync.Mutex // protects what follows
	known map[string]packed
}

// packed is a model's folder as a tar, and the files that it was of.
type packed struct {
	files  []file
	size   int64
	digest string
}

// file is one of a model's folder.
type file struct {
	name  string // below the folder, with slashes
	size  int64
	mode  fs.FileMode
	since time.Time // last change
}

// errNoModel is the error of a name without a folder.
var errNoModel = errors.New("there is no such model")

// list has the model's files, sorted by name. Folders without files are left out.
func (m *models) list(name string) (root *os.Root, files []file, err error) {
	if m.dir == "" || !filepath.IsLocal(name) || path.Clean(name) == "." {
		return nil, nil, errNoModel
	}
	dir, err := os.OpenRoot(m.dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = dir.Close() }()
	info, err := dir.Stat(name)
	for _, none := range []error{fs.ErrNotExist, syscall.EINVAL, syscall.ENOTDIR, syscall.ENAMETOOLONG} { // names that no folder has, too
		if errors.Is(err, none) {
			return nil, nil, errNoModel
		}
	}
	if err == nil && !info.IsDir() {
		return nil, nil, errNoModel
	}
	if root, err = dir.OpenRoot(name); err != nil {
		return nil, nil, err
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := root.Stat(filepath.FromSlash(name)) // of what a link leads to
		switch {
		case err != nil:
			return err
		case info.Mode().IsRegular():
			files = append(files, file{name, info.Size(), info.Mode().Perm(), info.ModTime()})
		case !info.IsDir():
			return fmt.Errorf("%s is no regular file; want regular files alone", name)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = errNoModel
	}
	if err != nil {
		_ = root.Close()
	}
	return root, files, err
}

// pack is the model's tar as it is now. The digest of one whose files have not changed is known.
func (m *models) pack(name string) (root *os.Root, p packed, err error) {
	root, files, err := m.list(name)
	if err != nil {
		return nil, p, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.known[name]
	if ok && equal(p.files, files) {
		return root, p, nil
	}
	sum, count := sha256.New(), counter{}
	if err := write(io.MultiWriter(sum, &count), root, files); err != nil {
		_ = root.Close()
		return nil, p, err
	}
	p = packed{files, count.n, hex.EncodeToString(sum.Sum(nil))}
	if m.known == nil {
		m.known = map[string]packed{}
	}
	m.known[name] = p
	return root, p, nil
}

func equal(a, b []file) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].name != b[i].name || a[i].size != b[i].size || !a[i].since.Equal(b[i].since) || a[i].mode != b[i].mode {
			return false
		}
	}
	return true
}

// counter counts the bytes that are written to it.
type counter struct{ n int64 }

// Write implements [io.Writer].
func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// write writes the files as a tar, which is the same as long as they are.
func write(w io.Writer, root *os.Root, files []file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: f.size, Mode: int64(f.mode | 0o400), Format: tar.FormatPAX}); err != nil {
			return err
		}
		if err := copyFile(t, root, f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return t.Close()
}

func copyFile(w io.Writer, root *os.Root, f file) error {
	in, err := root.Open(filepath.FromSlash(f.name))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	_, err = io.CopyN(w, in, f.size) // one that has grown since is cut
	return err
}

// writeTime is how long an agent may take for each part of a model's files.
const writeTime = time.Minute

// serve answers GET and HEAD /admin/models/NAME.
func (m *models) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	root, p, err := m.pack(name)
	if err != nil {
		status, e := http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Code: "model_unreadable", Message: fmt.Sprintf("cannot read the files of model %q: %v", name, err)}
		if errors.Is(err, errNoModel) {
			status, e = http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "unknown_model", Message: fmt.Sprintf("there are no files of model %q for agents to fetch: want a folder of that name, with files, in failover.models", name)}
		}
		serving.Fail(w, r, status, e)
		return
	}
	defer func() { _ = root.Close() }()
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set(agents.HeaderDigest, p.digest)
	h.Set("Content-Length", strconv.FormatInt(p.size, 10))
	if r.Method == http.MethodHead {
		return
	}
	if err := write(&patient{w, http.NewResponseController(w)}, root, p.files); err != nil {
		panic(http.ErrAbortHandler) // half a model must not look like a whole one
	}
}

// patient gives its reader time for each part.
type patient struct {
	io.Writer
	controller *http.ResponseController
}

// Write implements [io.Writer].
func (p *patient) Write(b []byte) (int, error) {
	_ = p.controller.SetWriteDeadline(time.Now().Add(writeTime)) // a recorder has none
	return p.Writer.Write(b)
}
