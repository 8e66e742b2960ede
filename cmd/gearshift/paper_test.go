//go:build !serveonly

package main

import (
	"path/filepath"
	"testing"
)

func TestPaperNeedsItsTasks(t *testing.T) {
	fail(t, []string{"paper"}, "--out")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--scenario", "tiny"}, "tiny", "hellaswag")
	fail(t, []string{"paper", "--out", filepath.Join(t.TempDir(), "x"), "--seeds", "1"}, "--seeds")
}
