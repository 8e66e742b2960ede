package serving_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
)

// ward is a reloader made of values.
type ward struct {
	files  []string
	change serving.Change
	newer  router.Policy
	fault  error // of both, and of recording

	policies map[string]router.Policy
	mu       sync.Mutex // protects change from a watching server
	banned   string     // is not admitted without a reason
	admits   func()     // happens meanwhile, if set
	recorded []string
}

func (w *ward) Files() []string { return w.files }

func (w *ward) Reread() (serving.Change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.change, w.fault
}

func (w *ward) Newer() (router.Policy, bool, error) {
	p := w.newer
	w.newer = nil
	return p, false, w.fault
}

func (w *ward) Policy(ref string) (router.Policy, error) {
	if p, ok := w.policies[ref]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("no policy %q", ref)
}

func (w *ward) Admit(name, reason string) error {
	if w.admits != nil {
		w.admits()
	}
	if w.banned == name && reason == "" {
		return fmt.Errorf("cannot promote %s: it is not above the rule", name)
	}
	return nil
}

func (w *ward) Record(name, reason string) error {
	if w.fault == nil {
		w.recorded = append(w.recorded, name)
	}
	return w.fault
}

func (w *ward) Restore(name string) error { return w.Record("again "+name, "") }

// withReloader makes a server with the reloader, whose configuration is the default
// one at first.
func withReloader(w *ward) func(*serving.Options) {
	return func(o *serving.Options) {
		w.change.Config = o.Config
		o.Reloader = w
	}
}

// metric is the value of a series.
func (g *rig) metric(t *testing.T, series string) string {
	t.Helper()
	for line := range strings.Lines(g.do("GET", "/metrics", "").Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Errorf("there is no metric %s", series)
	return ""
}

func TestReloadTakesOverWhatItCan(t *testing.T) {
	w := &ward{newer: chooses(large)}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(w))
	committed := 0
	w.change.Config.MaxBody = 40
	w.change.Config.DefaultTask = "copy"
	w.change.Config.Addr = "127.0.0.1:1"
	w.change.Config.Admin.Addr = config.AdminOff
	w.change.Config.TLS = config.TLS{Cert: "from", Key: "nowhere"}
	w.change.Applied, w.change.Left = []string{"serving.upstreams.a"}, []string{"tasks"}
	w.change.Commit = func() { committed++ }
	if response := g.do("POST", chat, ask); response.Code != http.StatusOK || response.Header().Get("X-Gearshift-Variant") != "small" {
		t.Fatalf("before: status %d, %s", response.Code, response.Header().Get("X-Gearshift-Variant"))
	}
	answer := g.order("POST", "/admin/reload", "")
	want := `{"changed":["policy","serving.default_task","serving.max_body","serving.upstreams.a"],"need_restart":["serving.addr","serving.admin.addr","serving.tls","tasks"],"policy":"wants@3"}`
	if answer.Code != http.StatusOK || answer.Body.String() != want {
		t.Errorf("status %d, %s\nwant %s", answer.Code, answer.Body, want)
	}
	if response := g.do("POST", chat, ask); response.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("with the new limit: status %d", response.Code)
	}
	if response := g.do("POST", "/v1/gearshift/route", "{}"); !strings.Contains(response.Body.String(), `"variant":"large"`) || committed != 1 {
		t.Errorf("the new policy does not route, or %d commits are not one: %s", committed, response.Body)
	}
	if got := g.metric(t, `gearshift_reloads_total{part="config",result="success"}`) + g.metric(t, `gearshift_reloads_total{part="policy",result="success"}`); got != "11" {
		t.Errorf("counted %s", got)
	}
	if log := g.logs.String(); !strings.Contains(log, "serving.max_body") || !strings.Contains(log, "serving.addr") {
		t.Errorf("the log says %s", log)
	}
}

// On any fault, of the file or of what it names, all stays as it was, and answer,
// log and metrics say so.
func TestReloadKeepsTheLastGood(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	for name, spoil := range map[string]func(w *ward){
		"mine.yaml:7: serving.max_body: want a size": func(w *ward) {
			w.fault = errors.New("mine.yaml:7: serving.max_body: want a size\nmine.yaml:9: serving.addr: no")
		},
		"max_body: -1 must be at least 1 byte": func(w *ward) { w.change.Config.MaxBody = -1 },
		`default_task: no task "sing"`:         func(w *ward) { w.change.Config.DefaultTask = "sing" },
		file + ":2: not JSON":                  func(*ward) { appendTo(t, file, "oops\n") },
	} {
		w := &ward{}
		g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withKeys(file), withReloader(w))
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w.change.Config.BodyTimeout = time.Hour // to be kept out with the fault
		w.change.Commit = func() { t.Errorf("%s: committed", name) }
		spoil(w)
		answer := g.order("POST", "/admin/reload", "")
		message, _, _, code := readError(t, answer.Body.Bytes())
		if answer.Code != http.StatusUnprocessableEntity || code != "reload_failed" || !strings.Contains(message, name) {
			t.Errorf("%s: status %d, %s: %s", name, answer.Code, code, message)
		}
		if !strings.Contains(g.logs.String(), strings.SplitN(name, " ", 2)[0]) {
			t.Errorf("%s: not in the log: %s", name, g.logs)
		}
		if g.metric(t, `gearshift_reloads_total{part="config",result="failure"}`) != "1" || g.metric(t, `gearshift_last_reload_success{part="config"}`) != "0" {
			t.Errorf("%s: not counted", name)
		}
		header := []string{"Authorization", "Bearer " + secrets["alice"]}
		if response := g.do("POST", chat, ask, header...); response.Code != http.StatusOK {
			t.Errorf("%s: status %d after the fault", name, response.Code)
		}
		// Once it is mended, all is well.
		write(t, file, string(good))
		w.fault, w.change = nil, serving.Change{Config: openConfig()}
		w.change.Config.KeysFile = file
		if answer := g.order("POST", "/admin/reload", ""); answer.Code != http.StatusOK || g.metric(t, `gearshift_last_reload_success{part="config"}`) != "1" {
			t.Errorf("%s: mended, status %d: %s", name, answer.Code, answer.Body)
		}
		// Without keys anyone may ask, and the log warns of it.
		w.change.Config.KeysFile = ""
		if answer := g.order("POST", "/admin/reload", ""); answer.Code != http.StatusOK || !strings.Contains(g.logs.String(), "anyone who can connect may ask") {
			t.Errorf("%s: without keys, status %d, and the log says %s", name, answer.Code, g.logs)
		}
		if response := g.do("POST", chat, ask); response.Code != http.StatusOK {
			t.Errorf("%s: status %d without keys", name, response.Code)
		}
	}
}

// A fault beside them keeps new limits of known keys out too.
func TestReloadKeepsTheLimits(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	w := &ward{}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withKeys(file), withReloader(w))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(text), "{", `{"rate":0.001,`, 1))
	w.change.Config.DefaultTask = "sing"
	for _, c := range []struct{ reload, ask int }{
		{http.StatusUnprocessableEntity, http.StatusOK},
		{http.StatusOK, http.StatusTooManyRequests}, // its one request a thousand seconds is the first of these
	} {
		if answer := g.order("POST", "/admin/reload", ""); answer.Code != c.reload {
			t.Errorf("reload: status %d, want %d: %s", answer.Code, c.reload, answer.Body)
		}
		for range 2 {
			g.do("POST", chat, ask, "Authorization", "Bearer "+secrets["alice"])
		}
		if got := g.do("POST", chat, ask, "Authorization", "Bearer "+secrets["alice"]); got.Code != c.ask {
			t.Errorf("the third request: status %d, want %d", got.Code, c.ask)
		}
		w.change.Config.DefaultTask = ""
	}
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(data)+text)
}

// A policy that cannot route leaves the old one in charge, and the rest of the
// reload alone.
func TestReloadOfAPolicyThatCannotRoute(t *testing.T) {
	w := &ward{newer: misfit{}}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(w))
	w.change.Config.MaxBody = 40
	answer := g.order("POST", "/admin/reload", "")
	if message, _, _, _ := readError(t, answer.Body.Bytes()); answer.Code != http.StatusUnprocessableEntity || !strings.Contains(message, `cannot use policy "misfit@1": made for another fleet`) {
		t.Errorf("status %d: %s", answer.Code, message)
	}
	if g.core.PolicyName() != "wants@3" || g.metric(t, `gearshift_last_reload_success{part="policy"}`) != "0" || g.metric(t, `gearshift_last_reload_success{part="config"}`) != "1" {
		t.Errorf("%s is in charge", g.core.PolicyName())
	}
	if response := g.do("POST", chat, ask); response.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("the configuration was held up: status %d", response.Code)
	}
}

// misfit is a policy for another fleet.
type misfit struct{ chooses }

func (misfit) Name() string             { return "misfit@1" }
func (misfit) Match(*fleet.Table) error { return errors.New("made for another fleet") }

// A request in flight ends under the rules that it began with.
func TestReloadLeavesRequestsInFlightAlone(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {Concurrency: 1}})
	synctest.Test(t, func(t *testing.T) {
		w := &ward{}
		g := newRig(t, takes(10*time.Second), withKeys(file), withReloader(w))
		header := []string{"Authorization", "Bearer " + secrets["alice"]}
		done := make(chan int)
		go func() { done <- g.do("POST", chat, ask, header...).Code }()
		synctest.Wait()
		write(t, file, "") // nobody may ask now
		if _, err := g.Reload("test"); err != nil {
			t.Fatal(err)
		}
		if response := g.do("POST", chat, ask, header...); response.Code != http.StatusUnauthorized {
			t.Errorf("with a removed key: status %d", response.Code)
		}
		if status := <-done; status != http.StatusOK {
			t.Errorf("the request in flight got %d", status)
		}
	})
}

// Files are taken once they stand still, by look alone: keys, certificate, and
// what the reloader names. What is behind a link counts, not the link.
func TestWatch(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	dir := t.TempDir()
	scenario, link := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "scenario.yaml")
	write(t, scenario, "first")
	if err := os.Symlink(scenario, link); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &ward{files: []string{link}}
		g := newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file), withReloader(w), func(o *serving.Options) { o.Config.Watch = time.Second })
		w.change.Config = config.Default()
		w.change.Config.KeysFile = file
		_, stop, ended := serve(t, g)
		models := func() int { return g.do("GET", "/v1/models", "", "Authorization", "Bearer "+secrets["alice"]).Code }
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if models() != http.StatusOK {
			t.Error("the key does not open")
		}

		write(t, file, "# half")
		time.Sleep(1100 * time.Millisecond)
		write(t, file, "# half, and more of it")
		time.Sleep(time.Second)
		synctest.Wait()
		if models() != http.StatusOK {
			t.Error("a file was taken while it was being written")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if models() != http.StatusUnauthorized {
			t.Error("the change was not taken")
		}

		two := filepath.Join(dir, "two.yaml")
		write(t, two, "second, longer")
		w.mu.Lock()
		w.change.Config.MaxBody = 40
		w.mu.Unlock()
		for _, err := range []error{os.Remove(link), os.Symlink(two, link)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if !strings.Contains(g.logs.String(), "serving.max_body") {
			t.Errorf("the change of the reloader's file was not taken: %s", g.logs)
		}
		if n := strings.Count(g.logs.String(), "reloaded"); n > 4 { // with the first look, at the level of debugging
			t.Errorf("%d reloads: %s", n, g.logs)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A file is another one by what it holds: its time and size may stay as they were, and
// another time alone is no change.
func TestWatchComparesContent(t *testing.T) {
	scenario := filepath.Join(t.TempDir(), "scenario.yaml")
	past := time.Unix(1_700_000_000, 0)
	put := func(text string, at time.Time) {
		write(t, scenario, text)
		if err := os.Chtimes(scenario, at, at); err != nil {
			t.Fatal(err)
		}
	}
	put("max_body: 50\n", past)
	synctest.Test(t, func(t *testing.T) {
		w := &ward{files: []string{scenario}}
		g := newRig(t, says(http.StatusOK, jsonType, fine), withReloader(w), func(o *serving.Options) { o.Config.Watch = time.Second })
		_, stop, ended := serve(t, g)
		time.Sleep(5 * time.Second)
		reloads := func() int {
			synctest.Wait()
			return strings.Count(g.logs.String(), "msg=reloaded")
		}
		before := reloads()
		put("max_body: 50\n", past.Add(time.Hour))
		time.Sleep(5 * time.Second)
		if n := reloads() - before; n != 0 {
			t.Errorf("%d reloads of a file that was only touched", n)
		}
		put("max_body: 40\n", past.Add(time.Hour))
		w.mu.Lock()
		w.change.Config.MaxBody = 40
		w.mu.Unlock()
		time.Sleep(5 * time.Second)
		if n := reloads() - before; n != 1 || !strings.Contains(g.logs.String(), "serving.max_body") {
			t.Errorf("%d reloads of a file whose time and size stayed: %s", n, g.logs)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// New connections get the new certificate; a broken one changes nothing.
func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	config, first := certificate(t, dir, 1)
	g := newRig(t, nil, withToken, func(o *serving.Options) { o.Config.TLS = config })
	l, stop, ended := serve(t, g)
	serial := func() string {
		c := tlsClient(l, first, 0)
		c.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
		response, err := c.Get("https://localhost/healthz")
		if err != nil {
			return err.Error()
		}
		response.Body.Close()
		return response.TLS.PeerCertificates[0].SerialNumber.String()
	}
	if got := serial(); got != "1" {
		t.Errorf("certificate %s", got)
	}
	certificate(t, dir, 2)
	if out, err := g.Reload("test"); err != nil || fmt.Sprint(out.Changed) != "[serving.tls]" {
		t.Errorf("%v, %v", out, err)
	}
	if got := serial(); got != "2" {
		t.Errorf("after the reload, certificate %s", got)
	}
	write(t, config.Cert, "no PEM")
	if _, err := g.Reload("test"); err == nil || !strings.Contains(err.Error(), config.Cert) {
		t.Errorf("error %v", err)
	}
	if got := serial(); got != "2" {
		t.Errorf("after a fault, certificate %s", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
