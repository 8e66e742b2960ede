package states

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// keptFailover and keptRollout are files that commit 40fe0fca wrote, compressed, in base64. Their term is 57801600.
const (
	keptFailover = "H4sIAAAAAAACA+3bPUoDQRQA4M2ukRSCaay0kJSSwh8QTCEew8ImxQaFxGgSLAwB8RAezjvEUhEbEzITTYgoFhLk+2B4M7OzzWz15s0mycRK" +
		"iMPHtWE67pRn56NiiKshpiFeHmxWb1uvTwkAAACwdArf5P/p3PpsLv+P4/Wzh+edl6NjOwoAAADLJ53GwvQ8YJz6l0btftQa9Ytm+ybvfP1+" +
		"Nu3vhnOEUhhXk8l9gY0wPvz0vNHutMJ0odur9/J+pdvM86tupdavtE7O9yq1/cGgl09WZddvd74VAAAA/FbM3svhJCDeAyjaGgAAAPg3Yr6/" +
		"qP5/mvyk/v/xh8B2Mlv/30oW1/tV9QEAAOBvxTp/rP/HbD6zNQAAAAAAAAAAAAAAsDTeAeR/w7YAgAAA"
	keptRollout = "H4sIAAAAAAACA+3bPUoDQRQA4NldoyKC6bWQlJpCsdLCc1jYWMQmidG4IiiCp/Bw3iGWitiYsDPRhIgWIkG+D4Y3P7vNbPXmzYZQWYhx8Lg6" +
		"yEed+uR8UotxMcY8xrO99eZN9/UpAAAAAHMn+yb/z6eeL6by/zReO3543nrZP7SjAAAAMH/ycczG5wGj1H9p2K6Hrd/rdHpX5devF+P+TjxG" +
		"WI7jZqiuC6zE8fan9dNevxuns8vypGzdNtqt87JxsHtXtqql4uLt3vcBAACA35DS93o8CUj3AGq2BgAAAP6NlO/Pqv8fhR/U/z9+ENgMk/X/" +
		"jTC73q/ADwAAAH8s1flT/T+l84WtAQAAAAAAAAAAAACAufEOwRCsFwCAAAA="
)

// unpacked writes a kept file and returns its path.
func unpacked(t *testing.T, kept string) string {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(kept)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	path := filepath.Join(t.TempDir(), "state.db")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFilesThatWereKept: files of an earlier version are read, their terms go on, and another kind may join.
func TestFilesThatWereKept(t *testing.T) {
	for kind, x := range map[string]struct{ kept, state string }{
		Failover: {keptFailover, `{"sleeps":{"m@h1":2}}`},
		Rollout:  {keptRollout, `{"kept":1}`},
	} {
		file := At(unpacked(t, x.kept))
		s, err := file.Open(kind, now)
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Last()) != x.state || s.Term() != 57801601 || s.Trouble() != "" {
			t.Errorf("%s: state %s, term %d, trouble %q; want %s, term 57801601", kind, s.Last(), s.Term(), s.Trouble(), x.state)
		}
		other, err := file.Open(Replicas, now)
		if err != nil || other.Last() != nil || other.Term() != 1000 {
			t.Fatalf("another kind: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
}
