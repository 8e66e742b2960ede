package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
)

func TestStoreCommands(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "store.db"), filepath.Join(dir, "copy.db")
	store := &checkpoints.Store{Path: path}
	if err := store.PutTraining("run", nil, make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.PutRule("slackfit:0.93", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := store.PutTraining("run", nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"verify"}, "1 versions of 1 policies, 1 training runs"},
		{[]string{"backup", copied}, "1 versions of 1 policies, 1 training runs"},
		{[]string{"compact"}, " bytes, were "},
		{[]string{"verify"}, "it is intact"},
	} {
		if out := succeed(t, append([]string{"store", "--store", path}, step.args...)...); !strings.Contains(out, step.want) {
			t.Errorf("store %v prints %q, want %q", step.args, out, step.want)
		}
	}
	fail(t, []string{"store", "backup", copied, "--store", path}, "already exists; --force replaces it")
	fail(t, []string{"store", "backup", dir, "--force", "--store", path}, "is a directory; want a file in it, such as "+filepath.Join(dir, filepath.Base(path)))
	fail(t, []string{"store", "verify", "--store", filepath.Join(dir, "none.db")}, "no checkpoint store")
}
