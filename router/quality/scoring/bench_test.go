package scoring

import (
	"strings"
	"testing"
)

// BenchmarkScore values an answer of 8 KB, of about 2,000 tokens:
//
//	go test -run '^$' -bench Score ./router/quality/scoring
func BenchmarkScore(b *testing.B) {
	answer := strings.Repeat("It takes 2 bolts, and half as many (A) of the other option, so the answer to it cannot be known. ", 82) + "The answer is (C), or 42."
	for kind, reference := range map[Kind]string{
		Exact: "Paris", Number: "42", Choice: "C", Contains: "42", JSONSchema: `{"type": "object"}`, Agreement: answer + " Really.",
	} {
		r := Reference{Answers: []string{reference}, Schema: []byte(reference)}
		score, err := New(kind, r)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(string(kind), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(answer)))
			for b.Loop() {
				score(answer)
			}
		})
	}
}
