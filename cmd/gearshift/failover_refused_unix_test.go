//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// What failover cannot do is refused before anything is served: an application of which no variant
// fits anywhere, sites where there is one alone, and a second controller.
func TestFailoverThatIsRefused(t *testing.T) {
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	text := chaosScenario
	for i, host := range chaosHosts {
		text += fmt.Sprintf("    \"*@%s\": {url: \"http://127.0.0.1:%d\", lifecycle: gearshift}\n", host, i+1)
	}
	with := func(edits ...string) string {
		return write(t, "refused.yaml", strings.NewReplacer(edits...).Replace(text))
	}
	serve := func(path string) []string {
		return []string{"serve", "--scenario", path, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--store", path + ".db", "--policy", "slackfit",
			"--failover-state", filepath.Join(filepath.Dir(path), "failover.db")}
	}
	if code, _, stderr := gearshift(t, serve(with("memory: 500MiB", "memory: 20MiB"))...); code != 1 || !strings.Contains(stderr, "no variant of a1 is both in time") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	fail(t, serve(with("site: b", "site: a", "site: c", "site: a", "headroom: 40%", "headroom: 40%, site_independent: true")), "a is the only site")
	first := serve(with())
	startProcess(t, first...).listens(t)
	fail(t, first, "failover.db", "another controller holds it")
}
