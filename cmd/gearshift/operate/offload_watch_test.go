package operate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gearshift/serving/streams"
)

// streamingState returns the state of a router that serves some clients on h1, and the others on h2 while that is up.
func streamingState(on1, on2, waiting int, up bool) streams.State {
	s := streams.State{FPS: 60, Counts: streams.Counts{Served: on1 + on2, Waiting: waiting, Batches: uint64(10 * (on1 + on2)), Late: 2, Frames: map[string]uint64{"answered": 70}}}
	s.Hosts = []streams.HostState{
		{Name: "h1", Up: true, Clients: on1, Room: 0.25, Batches: []streams.BatchState{{AgoMS: 900, Frames: 2, Model: "small", TookMS: 20}, {AgoMS: 735.6, Frames: 1, Model: "large", TookMS: 38.4}, {AgoMS: 697.3, Frames: 3, Model: "large", TookMS: 30}, {AgoMS: 40, Frames: 4, Model: "large"}}},
		{Name: "h2", Up: up, Clients: on2, Room: 1},
	}
	for i := range on1 + on2 {
		drop := 0.03
		s.Clients = append(s.Clients, streams.ClientState{ID: uint64(i), Served: true, Host: "h1", Model: "small", SLA: 0.06, DropRate: 0.006, Drop: &drop, Interval: 7.5, NetworkMS: 18, Results: 8})
	}
	for range waiting {
		s.Clients = append(s.Clients, streams.ClientState{ID: 99, Tenant: "acme", SLA: 0.02, Why: "no host has room for it"})
	}
	s.Total = len(s.Clients) + 3
	return s
}

// A recording says what has changed once in a second, and at once what hosts do.
func TestRecordingSaysWhatChanges(t *testing.T) {
	r := &recording{}
	for _, x := range []struct {
		at   float64
		s    streams.State
		want string
	}{
		{0, streamingState(0, 0, 0, true), "0 clients served, 0 waiting: 0 on h1, 0 on h2"},
		{0.1, streamingState(1, 0, 1, true), ""},
		{1, streamingState(2, 2, 0, true), "4 clients served, 0 waiting: 2 on h1, 2 on h2"},
		{2.5, streamingState(2, 2, 0, true), ""},
		{2.6, streamingState(2, 2, 1, true), "4 clients served, 1 waiting: 2 on h1, 2 on h2"},
		{2.7, streamingState(2, 0, 3, false), "2 clients served, 3 waiting: 2 on h1, h2 takes no frames"},
		{3, streamingState(4, 0, 1, false), ""},
	} {
		if got := r.add(x.at, x.s); got != x.want {
			t.Errorf("at %v: %q; want %q", x.at, got, x.want)
		}
	}
	want := "2.7 clients were served in the mean of 3 s, 4 at most. 0 frames were answered in 40 batches, 0.0 % of which began more than a frame late; 0 evictions. By what they report, clients lost 50 % of their SLAs in the mean."
	if got := strings.Join(r.verdict(), " "); got != want {
		t.Errorf("verdict %q; want %q", got, want)
	}
}

// A router's streams are shown, followed and drawn; where nobody is served, following fails.
func TestOffloadStatusAndWatch(t *testing.T) {
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", "a-token-of-the-right-length")
	var looks atomic.Int64
	empty := false
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/admin/streams" {
			http.NotFound(w, r)
			return
		}
		s := streamingState(2, 2, 1, true)
		if empty {
			s = streamingState(0, 0, 1, true)
		}
		looks.Add(1)
		_ = json.NewEncoder(w).Encode(s)
	}))
	defer router.Close()
	run := func(args ...string) (string, error) {
		var out strings.Builder
		c := NewOffloadCommand()
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetArgs(append(args, "--admin", router.URL))
		err := c.Execute()
		return out.String(), err
	}
	out, err := run("status")
	for _, want := range []string{"4 clients served, 1 waiting; so far 40 batches, 5.0 % late", "h1    yes           2        25 %   4          2.5", "small@h1", "0.0300", "acme", "no host has room for it", "and 3 more"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("status: %v; want %q in\n%s", err, want, out)
		}
	}
	if out, err = run("status", "--format", "json"); err != nil || !strings.Contains(out, `"drop": 0.03`) {
		t.Errorf("as JSON: %v, %s", err, out)
	}
	dir := filepath.Join(t.TempDir(), "watched")
	looks.Store(0)
	if out, err = run("watch", "--for", "30ms", "--every", "10ms", "--out", dir); err != nil || !strings.Contains(out, "4 clients served, 1 waiting: 2 on h1, 2 on h2") || looks.Load() < 2 {
		t.Errorf("watch: %v after %d looks\n%s", err, looks.Load(), out)
	}
	for name, want := range map[string]string{"clients.svg": "on h2", "loss.svg": "the SLA", "report.html": "Batches of h1", "csv/batches-1.csv": "large,-40,,0,4\nlarge,0,,0,4\nlarge,0,,0,0"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	empty = true
	if out, err = run("watch", "--for", "10ms", "--every", "10ms"); err == nil || err.Error() != "no client was served in 10ms" {
		t.Errorf("nobody served: %v, %s", err, out)
	}
	for _, bad := range [][]string{{"--for", "0s"}, {"--every", "0s"}, {"--for", "48h", "--every", "1ms"}} {
		if _, err = run(append([]string{"watch"}, bad...)...); err == nil || !strings.Contains(err.Error(), "want times above 0") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	router.Close()
	if _, err = run("watch"); err == nil || !strings.Contains(err.Error(), "cannot reach the router") {
		t.Error(fmt.Sprint("a router that is gone: ", err))
	}
}
