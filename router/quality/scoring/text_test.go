package scoring

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestExact(t *testing.T) {
	for _, c := range []struct {
		reference, answer string
		want              float64
	}{
		{"Paris", " paris.\n", 1},
		{"Paris", "**Paris**", 1},
		{"New York", "\"new\u00a0york\"", 1},
		{"New York", "New\n  York", 1},
		{"3.5", "3.5", 1},
		{"Paris", "It is Paris", 0},
		{"Paris", "", 0},
	} {
		got, err := scoreOf(Exact, c.answer, c.reference)
		if err != nil || got != c.want {
			t.Errorf("%q against %q: %v, %v; want %v", c.answer, c.reference, got, err, c.want)
		}
	}
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		reference, answer string
		want              float64
	}{
		{`"Paris"`, "The capital of France is PARIS, of course.", 1},
		{`"4"`, "There are 42.", 0},
		{`"4"`, "There are 42, of which 4 are left.", 1},
		{`4`, "There are 4.", 1},
		{`"cat"`, "concatenate", 0},
		{`"C++"`, "In C++11 it is.", 1},
		{`"東京"`, "首都は東京です", 1},
		{`["Paris", "Lyon"]`, "Lyon", 1},
		{`{"any": ["Paris", "Lyon"]}`, "Nice", 0},
		{`{"all": ["Paris", "Lyon"]}`, "From Paris to Lyon", 1},
		{`{"all": ["Paris", "Lyon"]}`, "From Paris", 0},
		{`"new york"`, "New\nYork", 1},
	} {
		var r Reference
		if err := json.Unmarshal([]byte(c.reference), &r); err != nil {
			t.Fatal(err)
		}
		score, err := New(Contains, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := score(c.answer); got != c.want {
			t.Errorf("%q against %s: %v; want %v", c.answer, c.reference, got, c.want)
		}
	}
}

func TestReference(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: "a", `1.50`: "1.50", `["a", 2]`: "a|2", `true`: "true", `null`: "", `""`: "",
		`{"any": ["a", "b"]}`: "a|b", `{"all": ["a"]}`: "a",
	} {
		var r Reference
		if err := json.Unmarshal([]byte(text), &r); err != nil || strings.Join(r.Answers, "|") != want || r.All != strings.Contains(text, "all") {
			t.Errorf("%s: %+v, %v; want %s", text, r, err, want)
		}
	}
	for _, text := range []string{`{}`, `{"some": ["a"]}`, `{"any": "a"}`, `{"any": ["a"], "all": ["b"]}`, `[["a"]]`, `[{}]`} {
		if err := json.Unmarshal([]byte(text), new(Reference)); err == nil || !strings.Contains(err.Error(), errForm.Error()) {
			t.Errorf("%s: %v; want %v", text, err, errForm)
		}
	}
}

// What cannot be a reference is refused before an engine is asked.
func TestRefusedReferences(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		r    Reference
		want string
	}{
		{Exact, Reference{}, "no answer to compare with"},
		{Exact, Reference{Answers: []string{" ** "}}, "no answer to compare with"},
		{Number, Reference{Answers: []string{"many"}}, `the answer "many" has no number`},
		{Choice, Reference{Answers: []string{"K"}}, `the answer "K" has no letter from A to J`},
		{Contains, Reference{Answers: []string{"a", "."}}, `"." has nothing to look for in an answer`},
		{Number, Reference{Answers: []string{"1", "2"}, All: true}, `"all" means nothing to number; want one answer, or a list of those that are right`},
		{Agreement, Reference{Answers: []string{" \n"}}, "no answer to compare with"},
		{Judge, Reference{Answers: []string{"a"}}, "judge cannot be scored by an answer given"},
		{JSONSchema, Reference{}, "no schema to validate with"},
	} {
		if _, err := New(c.kind, c.r); err == nil || err.Error() != c.want {
			t.Errorf("%s by %v: %v; want %s", c.kind, c.r, err, c.want)
		}
	}
	if _, err := ParseKind("f1"); err == nil || !strings.Contains(err.Error(), "exact, number, choice, contains, json-schema, agreement, judge") {
		t.Errorf("%v; want the kinds that there are", err)
	}
}

// The best of several right answers counts.
func TestSeveralAnswers(t *testing.T) {
	score, err := New(Exact, Reference{Answers: []string{"Paris", "Paris, France"}})
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]float64{"paris": 1, "Paris, France.": 1, "Lyon": 0} {
		if got := score(answer); got != want {
			t.Errorf("%q: %v; want %v", answer, got, want)
		}
	}
}

// Each way to score has values from 0 to 1, whatever the texts, and 1 for a text against itself.
func FuzzScore(f *testing.F) {
	f.Add("The answer is (C).", "C")
	f.Add("1,234", "#### 1234")
	f.Add("```json\n{\"a\": 1}\n```", `{"type": "object"}`)
	f.Add("東京 4", "首都は東京です")
	f.Fuzz(func(t *testing.T, answer, reference string) {
		for _, kind := range []Kind{Exact, Number, Choice, Contains, JSONSchema, Agreement} {
			got, err := scoreOf(kind, answer, reference)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Fatalf("%s by %q: %q has several lines", kind, reference, err)
				}
				continue
			}
			if !(got >= 0 && got <= 1) {
				t.Fatalf("%s: %q against %q: %v", kind, answer, reference, got)
			}
			if same, _ := scoreOf(kind, reference, reference); same != 1 && kind != JSONSchema {
				t.Fatalf("%s: %q against itself: %v", kind, reference, same)
			}
		}
	})
}
