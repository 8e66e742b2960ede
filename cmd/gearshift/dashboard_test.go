package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// chromium is the browser of the system, if there is one.
func chromium() string {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// inBrowser returns the browser, and the folder of what drives it. Without them the test is skipped.
func inBrowser(t *testing.T) (browser, dir string) {
	t.Helper()
	if browser = chromium(); browser == "" {
		t.Skip("there is no Chromium to open pages in (Debian: apt-get install chromium; elsewhere: CHROMIUM=its path)")
	}
	dir = filepath.Join("..", "..", "serving", "admin", "dashboard", "browser")
	if _, err := os.Stat(filepath.Join(dir, "drive.mjs")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core", "package.json")); err != nil {
		t.Skipf("there is no playwright-core to drive Chromium with (make setup): %v", err)
	}
	return browser, dir
}

// load asks the server again and again, streamed and not, by name and not, until
// the context ends. The function returned waits for the last answer.
func load(ctx context.Context, url string) (wait func()) {
	var all sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	for worker := range 4 {
		all.Go(func() {
			tick := time.NewTicker(150 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				model, task := "auto", []string{"search", "chat"}[n%2]
				if worker == 0 && n%3 == 0 {
					model = "large"
				}
				body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":20,"stream":%t}`, model, n%4 > 0)
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					return
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Gearshift-Task", task)
				r.Header.Set("X-Request-Id", "<i>an-id</i>")
				if response, err := client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			}
		})
	}
	return func() {
		all.Wait()
		client.CloseIdleConnections()
	}
}

var adminListening = regexp.MustCompile(`msg="admin listening" addr=(\S+)`)

// TestDashboard clicks through the dashboard in a headless Chromium while requests
// come in. What it clicks is in serving/admin/dashboard/browser/drive.mjs.
func TestDashboard(t *testing.T) {
	browser, dir := inBrowser(t)
	const token = "the-token-of-the-test-router"
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", token)
	s := serveTiny(t, "--policy", "static:small", "--store", storeOfObjectives(t), "--admin-addr", "127.0.0.1:0")
	admin := adminListening.FindStringSubmatch(s.log.String())
	if admin == nil {
		t.Fatalf("no admin listener: %s", s.log)
	}
	succeed(t, "policy", "shadow", "near@1", "--admin", "http://"+admin[1])
	ctx, stop := context.WithCancel(t.Context())
	wait := load(ctx, s.url)
	drive, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(drive, "node", "drive.mjs", "http://"+admin[1]+"/", token, browser)
	command.Dir = dir
	out, err := command.CombinedOutput()
	stop()
	wait()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	s.end(t)
}
