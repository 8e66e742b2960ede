package sampling

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/router/quality/scoring"
)

func TestRead(t *testing.T) {
	const text = `{"prompt": "2 + 2?", "answer": 4, "right": "5", "scores": {"other": 1}}

{"prompt": "2 + 2?", "answer": 4, "right": "5", "task": "sums"}
{"prompt": "2 + 2?", "answer": 3, "right": "3"}`
	list, err := Read(strings.NewReader(text), "p.jsonl", scoring.Number, "right")
	if err != nil || len(list) != 2 || list[1].Task != "sums" || list[0].Score("5") != 1 || list[0].Score("4") != 0 {
		t.Errorf("%+v, %v; want the prompt once for each task, with the answer of the field", list, err)
	}
	for _, c := range []struct {
		kind       scoring.Kind
		text, want string
	}{
		{scoring.Exact, "", `p.jsonl: no prompts; want a line such as {"prompt": "What is 6 × 7?", "answer": "42"} for each`},
		{scoring.Exact, "\n[1]", "p.jsonl:2: no JSON object: json: cannot unmarshal array into Go value of type map[string]json.RawMessage"},
		{scoring.Exact, `{"answer": "4"}`, `p.jsonl:1: no "prompt"`},
		{scoring.Exact, `{"prompt": ["4"]}`, `p.jsonl:1: "prompt" is no text`},
		{scoring.Exact, `{"prompt": "4", "task": 1}`, `p.jsonl:1: "task" is no text`},
		{scoring.Exact, `{"prompt": "` + strings.Repeat("a", longestLine) + `"}`, "p.jsonl:1: the line is too long; want at most 4 MiB"},
		{scoring.Exact, `{"prompt": "4"}`, `p.jsonl:1: no "answer", which --score exact compares answers with`},
		{scoring.Number, `{"prompt": "4", "answer": "many"}`, `p.jsonl:1: the answer "many" has no number`},
		{scoring.Contains, `{"prompt": "4", "answer": {"some": []}}`, `p.jsonl:1: "answer": want a text, a number, a list of these, or {"any": […]} or {"all": […]}`},
		{scoring.JSONSchema, `{"prompt": "4", "answer": "{}"}`, `p.jsonl:1: no "schema" to validate answers with`},
	} {
		if _, err := Read(strings.NewReader(c.text), "p.jsonl", c.kind, "answer"); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v; want %s", c.text, err, c.want)
		}
	}
	for _, kind := range []scoring.Kind{scoring.Agreement, scoring.Judge} {
		if list, err := Read(strings.NewReader(`{"prompt": "4"}`), "p.jsonl", kind, "answer"); err != nil || len(list) != 1 {
			t.Errorf("%s: %v, %v; want a prompt without an answer", kind, list, err)
		}
	}
}

// A seed draws the same order each time; less of it is its beginning, whatever bounds it.
func TestDraw(t *testing.T) {
	list := sums(t, 100, scoring.Number)
	texts := func(seed uint64, share float64, limit int) (all []string) {
		for _, p := range Draw(list, seed, share, limit) {
			all = append(all, p.Text)
		}
		return all
	}
	all := texts(1, 1, 0)
	if len(all) != 100 || slices.Equal(all, texts(2, 1, 0)) {
		t.Errorf("%d prompts, in the same order for another seed", len(all))
	}
	for _, c := range []struct {
		share float64
		limit int
		want  int
	}{{1, 0, 100}, {0.25, 0, 25}, {1, 7, 7}, {0.25, 50, 25}, {0.0001, 0, 1}, {1, 500, 100}} {
		if got := texts(1, c.share, c.limit); !slices.Equal(got, all[:c.want]) {
			t.Errorf("share %v, limit %d: %d prompts; want the first %d", c.share, c.limit, len(got), c.want)
		}
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 100 {
		t.Error("a prompt was drawn twice")
	}
}

// A file that a killed process left is gone on with, but for the line that is not whole.
func TestLabelsAreGoneOnWith(t *testing.T) {
	path, sizes := filepath.Join(t.TempDir(), "labels.jsonl"), []string{"small", "large"}
	prompts := sums(t, 3, scoring.Number)
	label := func(p Prompt) Label {
		return Label{Prompt: p.Text, Task: p.Task, Scores: map[string]float64{"large": 1, "small": 0}}
	}
	add := func(p Prompt, left int, partial bool) {
		t.Helper()
		l, err := Open(path, sizes, scoring.Number)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Left(prompts); len(got) != left || l.Partial != partial {
			t.Errorf("%d prompts left, partial %v; want %d and %v", len(got), l.Partial, left, partial)
		}
		if err := errors.Join(l.Add(label(p)), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	add(prompts[0], 3, false)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A process that is killed may leave any part of a line.
	for cut := range len(whole) - 1 { // one that lacks its end alone is whole
		if err := os.WriteFile(path, append(slices.Clone(whole), whole[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		add(prompts[1], 2, cut > 0)
		text, err := os.ReadFile(path)
		if want := string(whole) + strings.Replace(string(whole), prompts[0].Text, prompts[1].Text, 1); err != nil || string(text) != want {
			t.Fatalf("cut at %d: %q, %v; want %q", cut, text, err, want)
		}
	}
	// A file that was written by hand may lack the last line's end.
	if err := os.WriteFile(path, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	add(prompts[1], 2, false)
	add(prompts[2], 1, false)
	add(prompts[2], 0, false)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file for its owner alone", info.Mode(), err)
	}
}

// Two runs that write to one file overwrite nothing.
func TestTwoRunsOfOneFile(t *testing.T) {
	path, prompts := filepath.Join(t.TempDir(), "labels.jsonl"), sums(t, 6, scoring.Number)
	var runs [2]*Labels
	for i := range runs {
		var err error
		if runs[i], err = Open(path, []string{"large"}, scoring.Number); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range prompts {
		if err := runs[i%2].Add(Label{Prompt: p.Text, Task: p.Task, Scores: map[string]float64{"large": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(path, []string{"large"}, scoring.Number)
	if err != nil || again.Partial || len(again.Left(prompts)) != 0 {
		t.Fatalf("%+v, %v; want all labels", again, err)
	}
	if err := errors.Join(runs[0].Close(), runs[1].Close(), again.Close()); err != nil {
		t.Error(err)
	}
}

// A file of anything else is left as it is.
func TestOtherFilesAreLeftAlone(t *testing.T) {
	for text, want := range map[string]string{
		"notes\n":               "line 1 is no label",
		"notes":                 "line 1 is no label",
		"{\"prompt\": \"a\"}\n": "line 1 is no label",
		"{\"question\": \"a\"}": "line 1 is no label",
		"\n{\"prompt\": \"a\", \"scores\": {\"tiny\": 1}}\nrest":                             "line 2 has scores of tiny",
		"{\"prompt\":\"a\",\"scores\":{\"tiny\":1}}":                                         "line 1 has scores of tiny",
		"{\"prompt\": \"a\", \"scores\": {\"large\": 1, \"small\": 1}, \"by\": \"judge\"}\n": "line 1 has scores by judge",
	} {
		want += "; want labels of large, small by number, or another file as --out"
		path := filepath.Join(t.TempDir(), "labels.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, []string{"small", "large"}, scoring.Number); err == nil || err.Error() != path+": "+want {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}

// Prompts are read or refused with a line, whatever the bytes.
func FuzzRead(f *testing.F) {
	f.Add("{\"prompt\": \"a\", \"answer\": {\"all\": [\"b\", 1]}}\n")
	f.Add("{\"prompt\": \"a\", \"schema\": {}}")
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range scoring.Kinds {
			list, err := Read(strings.NewReader(text), "p", kind, "answer")
			if err == nil && len(list) == 0 || err != nil && strings.Contains(fmt.Sprint(err), "\n") {
				t.Fatalf("%s: %d prompts of %q, %v", kind, len(list), text, err)
			}
		}
	})
}
