package onnxruntime

import (
	"strings"
	"testing"

	"gearshift/serving/backend/decoder"
)

// The cache has what the memory leaves, if that is a context at least.
func TestRoomFor(t *testing.T) {
	l := decoder.Layout{WeightBytes: 1000, TokenBytes: 10, Vocabulary: 5}
	for _, c := range []struct {
		tokens, memory, want int
		declared             bool
		fault                string
	}{
		{tokens: 500, memory: 0, want: 500},
		{tokens: 500, memory: 20_000, want: 500},
		{tokens: 500, memory: 5_000, want: 100},
		{tokens: 500, memory: 5_000, declared: true, fault: "want kv_tokens of at most 100, or more memory"},
		{tokens: 500, memory: 4_999, fault: "want context of at most 99, or more memory"},
		{tokens: 500, memory: 900, fault: "want context of at most 0, or more memory"},
	} {
		got, err := roomFor(l, 100, c.tokens, c.declared, int64(c.memory))
		if got != c.want || (c.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
}
