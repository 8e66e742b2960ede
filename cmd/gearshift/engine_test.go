package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
)

// engineProcess is a "gearshift engine" in a process of its own.
type engineProcess struct {
	*process
	url    string
	header http.Header // of each request
}

// do sends a request with the engine's header.
func (e *engineProcess) do(t *testing.T, method, path, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range e.header {
		request.Header[name] = values
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// startEngine starts the engines of tiny's host, or what the arguments say.
func startEngine(t *testing.T, args ...string) *engineProcess {
	t.Helper()
	p := startProcess(t, append([]string{"engine", "--scenario", "tiny", "--addr", "127.0.0.1:0", "--fault", "none"}, args...)...)
	return &engineProcess{process: p, url: "http://" + p.listens(t)}
}

// fault switches the engine's faults.
func (e *engineProcess) fault(t *testing.T, faults string) {
	t.Helper()
	if status, text := e.do(t, "POST", "/fault", faults); status != http.StatusOK {
		t.Fatalf("faults %q: status %d, %s", faults, status, text)
	}
}

// running is the sum of vllm:num_requests_running over the engine's models.
func (e *engineProcess) running(t *testing.T) (n int) {
	t.Helper()
	_, text := e.do(t, "GET", "/metrics", "")
	found := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "vllm:num_requests_running{") {
			found = true
			n += int(line[strings.LastIndexByte(line, ' ')+1] - '0')
		}
	}
	if !found {
		t.Fatalf("no count of running requests in %s", text)
	}
	return n
}

// runs waits until the engine runs that many requests.
func (e *engineProcess) runs(t *testing.T, want int) {
	t.Helper()
	eventually(t, func() bool { return e.running(t) == want }, "the engine does not come to run %d requests", want)
}

// settles waits for the engine to run nothing, and returns what it still runs.
func (e *engineProcess) settles(t *testing.T) (n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if n = e.running(t); n == 0 {
			break
		}
	}
	return n
}

// eventually polls what happens in another process.
func eventually(t *testing.T, ok func() bool, format string, args ...any) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf(format, args...)
		}
	}
}

// serveBefore starts a router in front of the engine. Edits replace text of its
// scenario, pair by pair.
func serveBefore(t *testing.T, e *engineProcess, edits ...string) *served {
	t.Helper()
	text := strings.NewReplacer(edits...).Replace(succeed(t, "scenario", "upstreams", "tiny", "--at", e.url))
	path := filepath.Join(t.TempDir(), "upstream.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return serveTiny(t, "--scenario", path, "--policy", "static:small")
}

func TestEngineBehindARouter(t *testing.T) {
	e := startEngine(t)
	s := serveBefore(t, e)
	const rest = `"messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":3,"ignore_eos":true`
	for model, variant := range map[string]string{"auto": "small", "large": "large"} {
		status, header, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"`+model+`",`+rest+`}`)
		if status != http.StatusOK || header.Get("X-Gearshift-Replica") != variant+"@gpu0" || !strings.Contains(text, `"model":"`+variant+`"`) || !strings.Contains(text, `"completion_tokens":3`) {
			t.Errorf("model %s: status %d, header %v, %s", model, status, header, text)
		}
	}
	_, _, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"small","stream":true,`+rest+`}`)
	if strings.Count(text, `"content":"`) != 3 || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("stream %s", text)
	}
	e.fault(t, "error=1")
	if status, _, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"small",`+rest+`}`); status < 500 || !strings.Contains(text, `"error"`) {
		t.Errorf("status %d, %s", status, text)
	}
	e.fault(t, "")
	s.end(t)
	e.stop(t)
}

// Without a host there is a server for each, on ports that follow.
func TestEnginesOfAllHosts(t *testing.T) {
	e := startEngine(t, "--scenario", "titan-rtx-opt")
	for range 3 {
		e.listens(t)
	}
	for _, host := range []string{"gpu0", "gpu1", "gpu2", "gpu3"} {
		if !strings.Contains(e.log.String(), "host="+host) {
			t.Errorf("no host %s: %s", host, e.log)
		}
	}
}

func TestEngineRefuses(t *testing.T) {
	fail(t, []string{"engine", "--scenario", "tiny", "--host", "gpu9"}, `"gpu9"`, "gpu0")
	fail(t, []string{"engine", "--scenario", "tiny", "--replica", "small"}, `"small"`, "small@gpu0, large@gpu0")
	fail(t, []string{"engine", "--scenario", "tiny", "--host", "gpu0", "--replica", "small@gpu0"}, "one of them")
	fail(t, []string{"engine", "--scenario", "tiny", "--fault", "die=1"}, "die=1", "refuse, error, hang")
	fail(t, []string{"engine", "--scenario", "tiny", "--addr", "8101"}, "HOST:PORT")
	fail(t, []string{"engine", "--addr", "127.0.0.1:65534"}, "room for 4 ports")
	fail(t, []string{"engine", "--scenario", "tiny", "--api-key-env", "NO_SUCH_KEY"}, "NO_SUCH_KEY", "empty")
}

func TestScenarioUpstreams(t *testing.T) {
	out := succeed(t, "scenario", "upstreams", "titan-rtx-opt", "--at", "http://10.0.0.1:8101")
	path := write(t, "served.yaml", out)
	if check := succeed(t, "scenario", "check", path); !strings.Contains(check, "valid") {
		t.Error(check)
	}
	for _, line := range []string{"backend: upstream", "opt-125m@gpu0: {url: 'http://10.0.0.1:8101'}", "opt-6.7b@gpu3: {url: 'http://10.0.0.1:8104'}", "# or smallest-batch"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	again := succeed(t, "scenario", "upstreams", path, "--at", "gpu3=https://d", "--at", "gpu2=http://c", "--at", "gpu0=http://a", "--at", "gpu1=http://b/v1")
	if !strings.Contains(again, "opt-1.3b@gpu3: {url: 'https://d'}") || strings.Contains(again, "10.0.0.1") {
		t.Errorf("adapted again:\n%s", again)
	}
	if one := succeed(t, "scenario", "upstreams", "tiny", "--at", "https://a/v1"); !strings.Contains(one, "small@gpu0: {url: 'https://a/v1'}") {
		t.Errorf("one host, at the port of its scheme:\n%s", one)
	}
	// Models that were computed here are another backend's.
	remote := succeed(t, "scenario", "upstreams", "cpu-three", "--at", "http://a:8101")
	if s, err := scenario.Parse("remote.yaml", []byte(remote)); err != nil || len(s.Serving.Models) != 0 {
		t.Errorf("%v, models in\n%s", err, remote)
	}
	// Of two replicas of a size on a host, one server has the second by its name, or each has a server of its own.
	twice := write(t, "twice.yaml", heldScenario)
	for _, c := range []struct {
		want string
		at   []string
	}{
		{"wide@cpu0: {url: 'http://a:8101', model: wide}", []string{"--at", "http://a:8101"}},
		{"wide@cpu0: {url: 'http://c'}", []string{"--at", "small@cpu0=http://a", "--at", "large@cpu0=http://b", "--at", "wide@cpu0=http://c"}},
	} {
		if out := succeed(t, append([]string{"scenario", "upstreams", twice}, c.at...)...); !strings.Contains(out, c.want) {
			t.Errorf("no %q in\n%s", c.want, out)
		}
	}
	fail(t, []string{"scenario", "upstreams", twice, "--at", "wide@gpu0=http://c"}, `"wide@gpu0"`, "small@cpu0, large@cpu0, wide@cpu0")
	fail(t, []string{"scenario", "upstreams", twice, "--at", "wide@cpu0=http://c"}, "no URL for host cpu0")
	fail(t, []string{"scenario", "upstreams", "tiny"}, "--at URL is missing")
	fail(t, []string{"scenario", "upstreams", "tiny", "--at", "10.0.0.1:8101"}, "http://")
	fail(t, []string{"scenario", "upstreams", "tiny", "--at", "http://a:70000"}, `--at "http://a:70000"`, "1 to 65535")
	fail(t, []string{"scenario", "upstreams", "tiny", "--at", "gpu0=http://:8101"}, `--at "http://:8101"`, "a host")
	fail(t, []string{"scenario", "upstreams", "tiny", "--at", "http://me:secret@a"}, `--at "http://me:xxxxx@a" has a user`)
	fail(t, []string{"scenario", "upstreams", "titan-rtx-opt", "--at", "http://a"}, "port")
	fail(t, []string{"scenario", "upstreams", "titan-rtx-opt", "--at", "http://a:65533"}, "--at http://a:65533", "room for 4")
	fail(t, []string{"scenario", "upstreams", "tiny", "--at", "gpu7=http://a"}, `"gpu7"`, "gpu0")
	fail(t, []string{"scenario", "upstreams", "titan-rtx-opt", "--at", "gpu1=http://a"}, "no URL for host gpu0")
}
