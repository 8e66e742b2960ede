package overview

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestHeadersAreBounded: of an explanation that is too long for a header the last alternatives
// are left out, and counted; one that cannot be made short enough is empty.
func TestHeadersAreBounded(t *testing.T) {
	e := &Explanation{}
	for i := range 200 {
		e.Alternatives = append(e.Alternatives, Alternative{Variant: fmt.Sprintf("größe-%d", i)})
	}
	line := e.Header()
	var read Explanation
	if err := json.Unmarshal([]byte(line), &read); err != nil || len(line) > maxExplanation {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	n := len(read.Alternatives)
	if n == 0 || n+read.Omitted != 200 || read.Alternatives[0].Variant != "größe-0" {
		t.Errorf("%d alternatives from %+v, %d omitted", n, read.Alternatives[0], read.Omitted)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r > '~' }) {
		t.Error("it is not ASCII")
	}
	if len(e.Alternatives) != 200 || e.Omitted != 0 {
		t.Error("the explanation itself has changed")
	}
	e.Alternatives = []Alternative{{Variant: strings.Repeat("x", maxExplanation)}}
	if line := e.Header(); !strings.Contains(line, `"omitted":1`) {
		t.Errorf("without room for any: %.80s", line)
	}
}

// TestASCII: what JSON may escape reads the same afterwards, beyond the first plane too.
func TestASCII(t *testing.T) {
	const text = "a ö € 🙂"
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	line := ASCII(quoted)
	var back string
	if err := json.Unmarshal([]byte(line), &back); err != nil || back != text || line != `"a \u00f6 \u20ac \ud83d\ude42"` {
		t.Errorf("%s reads as %q, %v", line, back, err)
	}
}
