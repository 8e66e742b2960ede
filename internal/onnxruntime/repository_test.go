package onnxruntime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A config.json that cannot be read is named, with what is wrong in it.
func TestReadConfigFaults(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	for text, want := range map[string]string{
		"{":                   path + ": it is not the JSON of a model's configuration",
		`{"memory": "lots"}`:  path + `: memory: want a size such as 24GiB`,
		`{"memory": "10MiB"}`: "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readConfig(dir)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v; want %q", text, c, err, want)
		}
	}
}
