//go:build !serveonly

package labels_test

import (
	"strings"
	"testing"

	"gearshift/internal/quality/labels"
)

// Packed sets are read by name: the halves for fits and for simulations.
func TestBuiltIn(t *testing.T) {
	o := labels.Options{Columns: []string{"qwen2.5-7b-instruct", "llama-3.1-nemotron-51b-instruct"}}
	count := func(name string) int {
		t.Helper()
		set, err := labels.Read([]string{name}, o)
		if err != nil {
			t.Fatal(err)
		}
		return len(set.Prompts)
	}
	if a, b := count("builtin:nine-models"), count("builtin:nine-models:played"); a < 2500 || b < 2500 || a+b != 5608 {
		t.Errorf("the halves have %d and %d prompts", a, b)
	}
	for name, want := range map[string]string{"builtin:ten-models": "no prompts are called", "builtin:nine-models:other": "want builtin:nine-models, or builtin:nine-models:played"} {
		if _, err := labels.Read([]string{name}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
