package main

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/serving/engineserver"
)

// engineOf is the URL of an engine server with one replica of a scenario.
func engineOf(t *testing.T, s *scenario.Scenario, replica string) string {
	t.Helper()
	hosts, err := enginesOf(s, engineOptions{replica: replica})
	if err != nil {
		t.Fatal(err)
	}
	server, err := engineserver.New(engineserver.Config{Engines: hosts[0], BlockTokens: s.Engine.BlockTokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	listener := httptest.NewServer(server.Handler())
	t.Cleanup(listener.Close)
	return listener.URL
}

// From engines that run to a scenario that every command takes.
func TestInitAsksEngines(t *testing.T) {
	tiny := scenarioOf(t, "tiny")
	small, large := engineOf(t, tiny, "small@gpu0"), engineOf(t, tiny, "large@gpu0")
	out := filepath.Join(t.TempDir(), "mine.yaml")
	args := []string{"init", "--engine", "gpu0=" + large, "--engine", "gpu0=" + small, "-o", out}

	fail(t, args, "small, large", "no terminal", "--quality small=0.6,large=1", "--yes")
	if _, err := os.Stat(out); err == nil {
		t.Fatal("a file was written all the same")
	}
	said := succeed(t, append(args, "--yes")...)
	for _, want := range []string{"2 variants, 2 replicas, 1 host;", "gearshift scenario check " + out, "gearshift calibrate --scenario " + out, "gearshift policy promote calibrated --store ", "gearshift serve"} {
		if !strings.Contains(said, want) {
			t.Errorf("does not say %q:\n%s", want, said)
		}
	}
	s := scenarioOf(t, out)
	if s.Name != "mine" || !slices.Equal(s.KVTokens(), tiny.KVTokens()) || s.Variants[0].Name != "small" {
		t.Errorf("%s: KV caches of %v tokens, the engines have %v", s.Name, s.KVTokens(), tiny.KVTokens())
	}
	if at := s.Serving.Upstreams["large@gpu0"].URL; at != large+"/v1" || s.Serving.Backend != scenario.Upstream {
		t.Errorf("large is at %q, by backend %s", at, s.Serving.Backend)
	}
	succeed(t, "scenario", "check", out, "--strict")
	succeed(t, "eval", "--scenario", out, "--policy", "slackfit", "--workload", "u1", "--seeds", "1", "--requests", "200")

	fail(t, append(args, "--yes"), "already exists", "--force")
	succeed(t, append(args, "--force", "--quality", "small=0.3,large=0.7", "--deadline-ms", "70")...)
	if s := scenarioOf(t, out); s.Tasks[0].Quality["small"] != 0.3 || s.Tasks[0].DeadlineMS != 70 {
		t.Errorf("%+v", s.Tasks[0])
	}
	if text := succeed(t, "init", "--engine", small, "-o", "-"); !strings.Contains(text, "name: mine\n") || !strings.Contains(text, "small@local:") {
		t.Errorf("on standard output:\n%s", text)
	}
	if _, err := scenario.Parse("probed.yaml", []byte(succeed(t, append(slices.Clone(args[:5]), "-o", "-", "--probe", "--yes")...))); err != nil {
		t.Error(err)
	}
}

func TestInitRefuses(t *testing.T) {
	at := engineOf(t, scenarioOf(t, "tiny"), "small@gpu0")
	dir := t.TempDir()
	out := filepath.Join(dir, "x.yaml")
	fail(t, []string{"init"}, "--engine is missing")
	fail(t, []string{"init", "--engine", "http://"}, "--engine http://", "is not a URL")
	fail(t, []string{"init", "--engine", "gpu0=" + at, "--engine", at + "/", "-o", out}, "the same URL twice")
	fail(t, []string{"init", "--engine", "gpu0=" + at, "--engine", "gpu0=" + at + "/v1", "-o", out}, "the same URL twice")
	fail(t, []string{"init", "--engine", "=" + at, "-o", out}, "--engine \"="+at+"\": want the host's name")
	fail(t, []string{"init", "--engine", "gpu0=", "-o", out}, `--engine "gpu0=": want the host's name`)
	fail(t, []string{"init", "--engine", at, "--key-env", "GEARSHIFT_NO_SUCH_KEY", "-o", out}, "--key-env GEARSHIFT_NO_SUCH_KEY", "empty")
	fail(t, []string{"init", "--engine", at, "--key-env", "gpu7=PATH", "-o", out}, `no --engine is on host "gpu7"`)
	fail(t, []string{"init", "--engine", "gpu0=" + at, "--quality", "smal=1", "-o", out}, `no variant "smal"; there are small`)
	fail(t, []string{"init", "--engine", "gpu0=" + at, "--quality", "small=90", "-o", out}, "--quality small=90", "from 0 to 1")
	fail(t, []string{"init", "--engine", "gpu0=" + at, "-o", filepath.Join(dir, "none", "x.yaml")}, "cannot write the scenario")
	fail(t, []string{"init", "--engine", "a=http://127.0.0.1:1", "-o", out, "--timeout", "2s"}, "http://127.0.0.1:1 does not answer: tried GET http://127.0.0.1:1/v1/models")
	fail(t, []string{"init", "--engine", at, "--timeout", "0s"}, "--timeout")
	fail(t, []string{"init", "--engine", at, "--task", "no good", "-o", out}, "tasks[0].name")
}

// Numbers are offered, taken as they come, and asked for again where they are none.
func TestQualitiesAreAsked(t *testing.T) {
	var out strings.Builder
	q := question{strings.NewReader("\n1.5\nx\n0.85\n"), &out}
	list, said, err := q.qualities([]string{"small", "large"}, []float64{0.6, 1})
	if err != nil || !said || !slices.Equal(list, []float64{0.6, 0.85}) {
		t.Errorf("%v, %v, %v", list, said, err)
	}
	if got := out.String(); !strings.Contains(got, "quality of small [0.6]: ") || strings.Count(got, "quality of large [1]: ") != 3 || !strings.Contains(got, "want a number from 0 to 1") {
		t.Errorf("asked:\n%s", got)
	}
	q = question{strings.NewReader("\n\n"), io.Discard}
	if list, said, err := q.qualities([]string{"a", "b"}, []float64{0.6, 1}); err != nil || said || !slices.Equal(list, []float64{0.6, 1}) {
		t.Errorf("the offered numbers: %v, %v, %v", list, said, err)
	}
	q = question{strings.NewReader(""), io.Discard}
	if _, _, err := q.qualities([]string{"a"}, []float64{1}); err == nil {
		t.Error("no answer is an answer")
	}
}
