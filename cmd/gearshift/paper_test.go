//go:build !serveonly

package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

func TestPaperNeedsItsTasks(t *testing.T) {
	fail(t, []string{"paper"}, "--out")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--scenario", "tiny"}, "tiny", "hellaswag")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--seeds", "1"}, "--seeds")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--preset", "swift"}, "swift", "quick")
	brief := edited(t, "titan-rtx-opt", "decisions: 150000", "decisions: 8000") // the soft policy's are a quarter
	fail(t, []string{"paper", "--quick", "--out", filepath.Join(t.TempDir(), "x"), "--scenario", brief}, "2000 of its 8000 decisions", "warmup of 2000")
}

// A folder whose files the report would replace is refused before anything is trained.
func TestPaperSparesWhatIsNotAReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be trained
	var stdout, stderr strings.Builder
	args := []string{"paper", "--quick", "--out", filepath.Dir(write(t, "report.json", "{}"))}
	if code := run(ctx, args, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "a report.json that is not a report's; choose another folder") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
