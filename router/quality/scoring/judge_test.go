package scoring

import (
	"strings"
	"testing"
)

func TestParseVerdict(t *testing.T) {
	for text, want := range map[string]Verdict{
		"[[A]]":                First,
		"Both are fine. [[C]]": Tie,
		"[[tie]]":              Tie,
		"I would say [[A]] at first, but B is right: [[B]]": Second,
		"Verdict: B":     Second,
		"**Verdict:** A": First,
		`{"why": "A is shorter", "winner": "tie"}`: Tie,
		"The better answer is A.":                  First,
		"The better answer is answer B.":           Second,
		"A is shorter, yet wrong.\n\nB":            Second,
		"a":                                        First,
		"(B)":                                      Second,
		"Tie.":                                     Tie,
	} {
		if got, ok := ParseVerdict(text); !ok || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "Both are good.", "D", "Better is a matter of taste", "A or B"} {
		if got, ok := ParseVerdict(text); ok {
			t.Errorf("%q has the verdict %v; want none", text, got)
		}
	}
}

func TestCompared(t *testing.T) {
	for _, c := range []struct {
		shown, turned Verdict
		want          float64
	}{
		{First, Second, 1}, {Second, First, 0}, {Tie, Tie, 0.5},
		{First, First, 0.5}, {Second, Second, 0.5}, // the judge prefers a position
		{First, Tie, 0.5}, {Tie, First, 0.5},
	} {
		if got := Compared(c.shown, c.turned); got != c.want {
			t.Errorf("%v shown and %v turned: %v; want %v", c.shown, c.turned, got, c.want)
		}
	}
}

// A verdict is one of three, and the last in brackets counts.
func FuzzParseVerdict(f *testing.F) {
	for _, text := range []string{"[[A]]", "Verdict: tie", "b", `{"winner": "A"}`, "[["} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, ok := ParseVerdict(text); ok && v != First && v != Tie && v != Second {
			t.Fatalf("%q: %v", text, v)
		}
		if v, ok := ParseVerdict(text + " [[B]]"); !ok || v != Second {
			t.Fatalf("%q and then [[B]]: %v, %v", text, v, ok)
		}
	})
}

func TestTemplate(t *testing.T) {
	if err := CheckTemplate(Template); err != nil {
		t.Error(err)
	}
	if err := CheckTemplate("{{prompt}} {{a}}"); err == nil || err.Error() != "the judge's prompt has no {{b}}; want {{prompt}}, {{a}}, {{b}} in it" {
		t.Errorf("%v; want the mark that is missing", err)
	}
}

// An answer that has a mark in it does not change what the judge is asked.
func TestFill(t *testing.T) {
	if got, want := Fill("Q {{prompt}} A {{a}} B {{b}}", "p", "{{b}}", "{{prompt}}"), "Q p A {{b}} B {{prompt}}"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if got := Fill(Template, "What?", "This.", "That."); strings.Contains(got, "{{") || !strings.Contains(got, "Answer B:\nThat.") {
		t.Errorf("the built-in prompt is %q", got)
	}
}
