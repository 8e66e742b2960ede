package engineserver

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/serving/engines/agents"
)

// archive is a tar of the files.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if strings.HasSuffix(name, "->") {
			h = &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: files[name]}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeSymlink {
			if _, err := w.Write([]byte(files[name])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// A model comes whole, once for all who ask at the same time.
func TestFetch(t *testing.T) {
	files := map[string]string{"model.onnx": strings.Repeat("weights", 10000), "config.json": "{}"}
	whole := archive(t, files)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodGet || r.URL.Path != "/admin/models/tiny" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s with %s", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.Header().Set(agents.HeaderDigest, digest(whole))
		_, _ = w.Write(whole)
	}))
	defer server.Close()
	f := &Fetcher{Router: server.URL, Token: "secret", Dir: t.TempDir(), Client: server.Client()}
	for name, age := range map[string]time.Duration{".fetched-1": 2 * time.Hour, ".fetched-2": time.Minute} {
		folder, then := filepath.Join(f.Dir, name), time.Now().Add(-age)
		if err := errors.Join(os.Mkdir(folder, 0o755), os.Chtimes(folder, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := f.Fetch(t.Context(), "tiny"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(f.Dir, "tiny", name)); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	only(t, f.Dir, "tiny", ".fetched-2") // which another engine may be fetching
}

// only says what the folder holds that it should not.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			t.Errorf("%s is left in the folder", e.Name())
		}
	}
}

// zeros has bytes without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// What is missing, wrong or too large is one line, and nothing is left of it.
func TestFetchRefuses(t *testing.T) {
	good := archive(t, map[string]string{"model.onnx": strings.Repeat("weights", 1000)})
	for want, serve := range map[string]func(w http.ResponseWriter){
		`cannot fetch model "tiny": the router refuses: the router has no model "tiny"; there are a, b`: func(w http.ResponseWriter) {
			refuse(w, http.StatusNotFound, `the router has no model "tiny"; there are a, b`)
		},
		`cannot fetch model "tiny": what came has the digest`: func(w http.ResponseWriter) {
			w.Header().Set(agents.HeaderDigest, digest([]byte("another")))
			_, _ = w.Write(good)
		},
		`cannot fetch model "tiny": the router's answer has no X-Gearshift-Digest`: func(w http.ResponseWriter) { _, _ = w.Write(good) },
		`cannot fetch model "tiny": the answer is cut short`: func(w http.ResponseWriter) {
			w.Header().Set(agents.HeaderDigest, digest(good))
			_, _ = w.Write(good[:len(good)/2])
		},
		`cannot fetch model "tiny": it has 1099511627776 bytes, and this engine takes 8192 at most; --fetch-limit raises that`: func(w http.ResponseWriter) {
			var b bytes.Buffer
			_ = tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "model.onnx", Size: 1 << 40})
			w.Header().Set(agents.HeaderDigest, digest(nil))
			_, _ = w.Write(b.Bytes())
			_, _ = io.CopyN(w, zeros{}, 1<<30) // until the engine has hung up
		},
		`cannot fetch model "tiny": it has 16002 bytes`: func(w http.ResponseWriter) { // together
			w.Header().Set(agents.HeaderDigest, digest(nil))
			_, _ = w.Write(archive(t, map[string]string{"a": strings.Repeat("x", 8001), "b": strings.Repeat("x", 8001)}))
		},
		`cannot fetch model "tiny": it has 3221225472 bytes`: func(w http.ResponseWriter) {
			w.Header().Set(agents.HeaderDigest, digest(nil))
			w.Header().Set("Content-Length", "3221225472")
		},
		`cannot fetch model "tiny": it has 2105344 bytes`: func(w http.ResponseWriter) { // behind the archive's end
			w.Header().Set(agents.HeaderDigest, digest(nil))
			_, _ = w.Write(good)
			_, _ = io.CopyN(w, zeros{}, 1<<30)
		},
		`cannot fetch model "tiny": what came has more than 1024 files`: func(w http.ResponseWriter) {
			many := map[string]string{}
			for i := range 1100 {
				many[fmt.Sprint(i)] = ""
			}
			w.Header().Set(agents.HeaderDigest, digest(nil))
			_, _ = w.Write(archive(t, many))
		},
		`cannot fetch model "tiny": what came has no files`: func(w http.ResponseWriter) {
			none := archive(t, nil)
			w.Header().Set(agents.HeaderDigest, digest(none))
			_, _ = w.Write(none)
		},
		`cannot fetch model "tiny": what came has "../up" in it`: func(w http.ResponseWriter) {
			bad := archive(t, map[string]string{"../up": "x"})
			w.Header().Set(agents.HeaderDigest, digest(bad))
			_, _ = w.Write(bad)
		},
		`cannot fetch model "tiny": what came has "model.onnx->" in it`: func(w http.ResponseWriter) {
			bad := archive(t, map[string]string{"model.onnx->": "/etc/passwd"})
			w.Header().Set(agents.HeaderDigest, digest(bad))
			_, _ = w.Write(bad)
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { serve(w) }))
		f := &Fetcher{Router: server.URL, Token: "secret", Dir: t.TempDir(), Limit: 8 << 10, Client: server.Client()}
		if err := f.Fetch(t.Context(), "tiny"); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %s", err, want)
		}
		only(t, f.Dir)
		server.Close()
	}
	f := &Fetcher{Router: "http://127.0.0.1:9", Dir: t.TempDir()}
	for _, name := range []string{"../up", "a/b", ".hidden", ""} {
		if err := f.Fetch(t.Context(), name); err == nil || !strings.Contains(err.Error(), "its name is not one of a folder") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
