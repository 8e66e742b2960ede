package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/internal/calibrate/enginetest"
	"gearshift/router/nn"
)

// shown is what policy show prints of a policy for programs.
type shown struct {
	SHA256 string
	Layers []int
	Meta   checkpoints.Meta
}

func show(t *testing.T, store, ref string) shown {
	t.Helper()
	var s shown
	if err := json.Unmarshal([]byte(succeed(t, "policy", "show", ref, "--store", store, "--format", "json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// randomNetwork is one whose choices differ from view to view.
func randomNetwork(t *testing.T, sizes ...int) *nn.MLP {
	t.Helper()
	n, err := nn.New(sizes...)
	if err != nil {
		t.Fatal(err)
	}
	n.Randomise(randomSource(4))
	return n
}

// A policy that is exported, signed and imported is the one that it was, and a file is
// not replaced unasked.
func TestPolicyExportImport(t *testing.T) {
	store, dir := enginetest.Store(t, "tiny", "mine"), t.TempDir()
	path := filepath.Join(dir, "mine.onnx")
	export := []string{"policy", "export", "mine@1", "--store", store, "--onnx", path}
	if out := succeed(t, export...); !strings.Contains(out, "mine@1") || !strings.Contains(out, path) {
		t.Errorf("export: %s", out)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fail(t, export, path, "already exists", "--force")
	succeed(t, append(export, "--force")...)
	if again, err := os.ReadFile(path); err != nil || !slices.Equal(again, first) {
		t.Errorf("exported again it is another file (%v)", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("the folder holds %v (%v)", files, err)
	}
	// What is there keeps its permissions.
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	succeed(t, append(export, "--force")...)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file's permissions are now %v (%v)", info.Mode(), err)
	}
	// What is a link stays one, as the link to a device or the standard output does.
	link := filepath.Join(t.TempDir(), "link.onnx")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	succeed(t, "policy", "export", "mine@1", "--store", store, "--onnx", link, "--force")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced (%v)", err)
	}
	fail(t, []string{"policy", "export", "mine@1", "--store", store, "--onnx", dir, "--force"}, "is a directory")
	other, key := filepath.Join(dir, "other.db"), filepath.Join(dir, "key.pem")
	public := strings.TrimSpace(succeed(t, "policy", "keygen", key))
	succeed(t, "policy", "sign", path, "--key", key)
	if first, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, "policy", "import", path, "--store", other, "--name", "back", "--trusted-key", public); !strings.Contains(out, "back@1") || !strings.Contains(out, "preset quick") {
		t.Errorf("import: %s", out)
	}
	// Into a container there is no way for a file but standard input.
	root := newRoot()
	root.SetIn(bytes.NewReader(first))
	root.SetOut(io.Discard)
	root.SetArgs([]string{"policy", "import", "-", "--store", other, "--name", "piped", "--trusted-key", public})
	if err := root.Execute(); err != nil {
		t.Errorf("import from standard input: %v", err)
	}
	for _, name := range []string{"back", "piped"} {
		if was, is := show(t, store, "mine"), show(t, other, name); is.SHA256 != was.SHA256 {
			t.Errorf("it came back as %+v, was %+v", is, was)
		}
	}
}

func TestPolicyExportImportRefuse(t *testing.T) {
	store := enginetest.Store(t, "tiny", "mine")
	fail(t, []string{"policy", "export", "mine", "--store", store}, "--onnx FILE")
	fail(t, []string{"policy", "export", "yours", "--store", store, "--onnx", filepath.Join(t.TempDir(), "x")}, "yours", "mine")
	fail(t, []string{"policy", "export", "mine", "--store", store, "--onnx", filepath.Join(t.TempDir(), "none", "x")}, "mine@1", "none")

	network := write(t, "q_net.onnx", string(checkpoints.NetworkONNX(randomNetwork(t, 9, 4, 5))))
	fail(t, []string{"policy", "import", network, "--store", store}, "--name")
	fail(t, []string{"policy", "import", network, "--store", store, "--name", "slackfit"}, "slackfit", "rules")
	at := []string{"--store", store, "--name", "foreign", "--scenario", "tiny"}
	fail(t, append([]string{"policy", "import", network}, at...), network, "maps 9 inputs to 5 outputs", "wants 8 inputs and 2 outputs (2 variants)")
	fail(t, append([]string{"policy", "import", network, "--preset", "swift"}, at...), `no preset "swift"`, "quick")
	fail(t, append([]string{"policy", "import", write(t, "text.onnx", "text")}, at...), "text.onnx", "no ONNX file")
	fail(t, append([]string{"policy", "import", filepath.Join(t.TempDir(), "none.onnx")}, at...), "none.onnx")
}

func randomSource(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
