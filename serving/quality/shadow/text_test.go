package shadow

import (
	"testing"
	"time"
)

func TestTextsOfAnswers(t *testing.T) {
	for _, c := range []struct {
		name, answer, text string
		tokens             int
	}{
		{"nothing", "", "", 0},
		{"chat", ` {"choices":[{"message":{"content":" a b "}}],"usage":{"completion_tokens":2}}`, "a b", 2},
		{"completion", `{"choices":[{"text":"a"}]}`, "a", 0},
		{"events", "data: {\"choices\":[{\"delta\":{\"content\":\"a \"}}]}\r\n\r\n: comment\n\ndata:{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\ndata: [DONE]\n\n", "a b", 2},
		{"the first of two", `{"choices":[{"index":0,"text":"a"},{"index":1,"text":"b"}]}`, "a", 0},
		{"no text", `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]}}]}`, "", 0},
		{"no JSON", `{"choices":[{"text":"a"`, "", 0},
		{"in a coding", "\x1f\x8b\x08data:", "", 0},
	} {
		if text, tokens := read([]byte(c.answer)); text != c.text || tokens != c.tokens {
			t.Errorf("%s: %q of %d tokens, want %q of %d", c.name, text, tokens, c.text, c.tokens)
		}
	}
}

func TestABudgetIsOfAnHour(t *testing.T) {
	var b budget
	if !b.left(10, 0) || !b.reserve(10, 10, 0) || b.reserve(1, 10, 0) || b.left(10, 0) {
		t.Error("ten tokens of ten are not the most")
	}
	b.settle(10, 4)
	if !b.reserve(6, 10, time.Minute) || b.left(10, time.Hour-1) || !b.reserve(10, 10, time.Hour) {
		t.Error("what is not spent, or another hour's, is not there")
	}
	b.settle(6, 1) // of the hour before
	if b.spent < 0 {
		t.Errorf("%d tokens are spent", b.spent)
	}
}
