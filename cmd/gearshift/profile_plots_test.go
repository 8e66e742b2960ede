//go:build !serveonly

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/calibrate/profiling"
)

// What is printed, and written, is a profile that a scenario takes.
func TestProfileFit(t *testing.T) {
	rows, dir := firstRows(t, 60), filepath.Join(t.TempDir(), "fitted")
	quick := []string{"profile", "fit", "--requests", rows, "--resamples", "0", "--max-batch-tokens", "2048", "--variant", "large", "--machine", "one RTX 4090", "--date", "2026-01-31"}
	printed := succeed(t, quick...)
	if path := succeed(t, append(quick, "--out", dir)...); strings.TrimSpace(path) != filepath.Join(dir, "profile.yaml") {
		t.Errorf("printed %q", path)
	}
	written, err := os.ReadFile(filepath.Join(dir, "profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != printed {
		t.Errorf("written\n%s\nprinted\n%s", written, printed)
	}
	var m profiling.Logged
	if err := yaml.Unmarshal(written, &m); err != nil {
		t.Fatal(err)
	}
	if m.Requests != 60 || m.Machine != "one RTX 4090" || m.Date != "2026-01-31" || len(m.Profiles) != 1 || m.Profiles[0].Variant != "large" || m.Profiles[0].Weights <= 0 || len(m.Intervals) != 0 {
		t.Errorf("profile %+v", m)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err != nil {
		t.Error(err)
	}
	if out := succeed(t, "scenario", "profiles", "tiny", "--from", filepath.Join(dir, "profile.yaml")); !strings.Contains(out, "weights_ms") {
		t.Error(out)
	}
	// A file is no folder.
	fail(t, append(quick, "--out", rows), rows)
}
