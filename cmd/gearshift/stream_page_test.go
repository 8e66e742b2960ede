package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestStreamPage streams from a page in a headless Chromium, over a WebSocket and over a WebTransport whose certificate is known
// by its hash, with an API key. What it looks for is in serving/admin/dashboard/browser/streams.mjs.
func TestStreamPage(t *testing.T) {
	browser, dir := inBrowser(t)
	scenario, keys, addr := filepath.Join(t.TempDir(), "page.yaml"), filepath.Join(t.TempDir(), "keys"), freeAddr(t)
	if err := os.WriteFile(scenario, []byte(streamsOfTwoSizes), 0o600); err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`gs-\S+`).FindString(succeed(t, "key", "new", "page", "--keys", keys))
	s := serveTiny(t, "--scenario", scenario, "--addr", addr, "--http3", addr, "--keys", keys)
	for _, transport := range []string{"websocket", "webtransport"} {
		t.Run(transport, func(t *testing.T) {
			drive, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			command := exec.CommandContext(drive, "node", "streams.mjs", s.url, transport, browser, key)
			command.Dir = dir
			out, err := command.CombinedOutput()
			if err != nil {
				t.Errorf("%v", err)
			}
			t.Logf("%s", out)
		})
	}
	s.end(t)
	if key == "" || strings.Contains(s.log.String(), key) {
		t.Errorf("the log has the key %q:\n%s", key, s.log)
	}
}
