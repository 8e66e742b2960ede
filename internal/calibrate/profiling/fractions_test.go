package profiling

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

// Fractions that come to whole numbers are written as those.
func TestFractionsAreShort(t *testing.T) {
	var doc yaml.Node
	if err := doc.Encode(map[string]any{"high": 55941.3, "low": 0.1234567, "samples": 3}); err != nil {
		t.Fatal(err)
	}
	shorten(&doc)
	text, err := yaml.Marshal(&doc)
	if want := "high: 55941\nlow: 0.12346\nsamples: 3\n"; err != nil || string(text) != want {
		t.Errorf("%v, %q, want %q", err, text, want)
	}
}
