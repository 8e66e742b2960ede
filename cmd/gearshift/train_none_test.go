//go:build serveonly

package main

import (
	"bytes"
	"strings"
	"testing"
)

// Who follows a guide with the router's own build is told what this build lacks, and
// what it can do instead.
func TestWithoutTraining(t *testing.T) {
	for _, name := range []string{"train", "calibrate", "paper"} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{name, "--scenario", "tiny"}, &stdout, &stderr)
		if want := "gearshift: " + name + " is not in this build (serveonly); "; code != 1 || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %q", name, code, stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"--help"}, &stdout, &stderr)
	run(t.Context(), []string{"trane"}, &stdout, &stderr)
	for _, text := range []string{stdout.String(), stderr.String()} {
		if text == "" || strings.Contains(text, "calibrate") {
			t.Errorf("what there is has calibrate: %s", text)
		}
	}
	if key, commands := remedy("tiny", "mine", "some.db"); key != "to_import_one" || strings.Contains(commands, "gearshift train") {
		t.Errorf("no policy is in production: %s=%s", key, commands)
	}
}
