package main

import (
	"os"
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

// TestStoreOfAWrongAddress: every command refuses a store whose address has a typo, and makes no file of it.
func TestStoreOfAWrongAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	commands := [][]string{
		{"policy", "ls"}, {"policy", "promote", "slackfit"}, {"store", "verify"}, {"eval"}, {"train", "--scenario", "tiny"}, {"serve"}, {"quality", "ls"},
	}
	for _, address := range []string{"etcd:/h:2379/g", "http://h:2379/g"} {
		for _, command := range commands {
			fail(t, append(command, "--store", address), "--store", address, "etcd://HOST:PORT")
		}
		fail(t, []string{"serve", "--state", address}, "--state", address, "etcd://HOST:PORT")
		fail(t, []string{"store", "backup", address, "--store", "x.db"}, "cannot back up", address)
		t.Setenv("GEARSHIFT_STORE", address)
		fail(t, []string{"policy", "ls"}, "GEARSHIFT_STORE", address, "etcd://HOST:PORT")
		t.Setenv("GEARSHIFT_STORE", "")
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("commands have made %v (%v)", left, err)
	}
}
