package failover

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/serving/engines/agents"
)

// get asks for a model's files.
func get(m *models, method, name string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/admin/models/x", nil)
	r.SetPathValue("name", name)
	w := httptest.NewRecorder()
	m.serve(w, r)
	return w
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A model comes as a tar of its folder, whose digest is in the header, until its files change.
func TestModelsAreSent(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "org/tiny/model.onnx", "weights")
	put(t, dir, "org/tiny/parts/one", "1")
	put(t, dir, "secret", "not a model")
	m := &models{dir: dir}
	w := get(m, http.MethodGet, "org/tiny")
	sum := sha256.Sum256(w.Body.Bytes())
	digest := w.Header().Get(agents.HeaderDigest)
	if w.Code != http.StatusOK || digest != hex.EncodeToString(sum[:]) || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
		t.Errorf("status %d, header %v, %d bytes", w.Code, w.Header(), w.Body.Len())
	}
	var names []string
	for list := tar.NewReader(bytes.NewReader(w.Body.Bytes())); ; {
		h, err := list.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(list)
		names = append(names, h.Name+"="+string(text))
	}
	if want := []string{"model.onnx=weights", "parts/one=1"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	if head := get(m, http.MethodHead, "org/tiny"); head.Body.Len() != 0 || head.Header().Get(agents.HeaderDigest) != digest {
		t.Errorf("HEAD: %v, %d bytes", head.Header(), head.Body.Len())
	}
	put(t, dir, "org/tiny/model.onnx", "other weights")
	if again := get(m, http.MethodHead, "org/tiny").Header().Get(agents.HeaderDigest); again == digest || again == "" {
		t.Errorf("the digest is %q as before, though a file is another", again)
	}
	for _, name := range []string{"small", "../" + filepath.Base(dir), "org/tiny/../../..", ".", "/etc", "org/none", "secret", ""} {
		if w := get(m, http.MethodGet, name); w.Code != http.StatusNotFound && w.Code != http.StatusInternalServerError || w.Header().Get(agents.HeaderDigest) != "" {
			t.Errorf("%q: status %d, %v", name, w.Code, w.Header())
		}
	}
	put(t, dir, "odd/config.json", "{}")
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "odd", "model.onnx")); err != nil {
		t.Fatal(err)
	}
	if w := get(m, http.MethodGet, "odd"); w.Code != http.StatusInternalServerError || w.Header().Get(agents.HeaderDigest) != "" {
		t.Errorf("a device among the files: status %d, %s", w.Code, w.Body)
	}
	if w := get(&models{}, http.MethodGet, "org/tiny"); w.Code != http.StatusNotFound {
		t.Errorf("without a folder: status %d", w.Code)
	}
}

// A host whose replicas are behind several servers refuses only when all of them do.
func TestEvidenceOfSeveralServers(t *testing.T) {
	x, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: time.Second, Weight: 1, Quality: []float64{1, 1}}},
		[]fleet.Variant{{Name: "a"}, {Name: "b"}}, []fleet.Host{{Name: "one"}, {Name: "two"}},
		[]fleet.Replica{{Name: "a@one", Host: 0}, {Name: "b@one", Variant: 1, Host: 0}, {Name: "a@two", Host: 1}})
	if err != nil {
		t.Fatal(err)
	}
	e := newEvidence(x, []string{"one:1", "one:2", "two:1"})
	for i, c := range []struct {
		kind    control.Kind
		replica int
		want    bool
	}{
		{control.Refused, 2, true}, // its only server
		{control.Refused, 0, false},
		{control.ProbeFailed, 1, true}, // the other one refuses
		{control.ProbePassed, 1, true},
		{control.Refused, 0, false},
		{control.Refused, 1, true},
		{control.Broken, 1, true},
		{control.Heartbeat, -1, true},
	} {
		host := 0
		if c.replica == 2 {
			host = 1
		}
		if got := e.counts(control.Event{Kind: c.kind, Replica: c.replica, Host: host}); got != c.want {
			t.Errorf("%d: %v of %d counts: %v, want %v", i, c.kind, c.replica, got, c.want)
		}
	}
}

// TestNamesOfNoModel: whatever the name, one that no folder has is a model that there is not.
func TestNamesOfNoModel(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file", "not a model")
	m := &models{dir: dir}
	for _, name := range []string{"\x00", "tiny\x00", "tiny/\x00", "file", "file/x", strings.Repeat("x", 300), "..", "../x", "/etc", "", ".", "\xff", "tiny"} {
		if w := get(m, http.MethodGet, name); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d %s", name, w.Code, w.Body)
		}
	}
}
