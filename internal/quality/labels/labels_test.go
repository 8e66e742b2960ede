package labels_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/quality/labels"
)

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read wants the columns and prompts of a file.
func read(t *testing.T, path string, o labels.Options, columns string, prompts int) *labels.Set {
	t.Helper()
	set, err := labels.Read([]string{path}, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(set.Columns, ","); got != columns || len(set.Prompts) != prompts {
		t.Errorf("%d prompts with scores of %s; want %d, %s", len(set.Prompts), got, prompts, columns)
	}
	for i, p := range set.Prompts {
		if len(p.Scores) != len(set.Columns) {
			t.Errorf("prompt %d has %d scores for %d columns", i, len(p.Scores), len(set.Columns))
		}
	}
	return set
}

const lines = `{"prompt": "one", "scores": {"large": 1, "small": 0}, "task": "sums", "group": 3}

{"prompt": "two", "scores": {"small": 0.5, "mid": null}, "group": "b", "more": [1]}
{"prompt": "three", "scores": {"mid": 1}}
`

func TestJSONLines(t *testing.T) {
	set := read(t, file(t, "mine.jsonl", lines), labels.Options{}, "large,small,mid", 3)
	one, two := set.Prompts[0], set.Prompts[1]
	if one.Text != "one" || one.Task != "sums" || one.Group != "3" || one.Scores[0] != 1 || one.Scores[1] != 0 || one.Scores[2] == one.Scores[2] {
		t.Errorf("the first prompt is %+v", one)
	}
	if two.Group != "b" || two.Scores[1] != 0.5 || two.Scores[0] == two.Scores[0] {
		t.Errorf("the second prompt is %+v", two)
	}
	if s := set.Sources[0]; s.Name != "mine.jsonl" || len(s.SHA256) != 64 {
		t.Errorf("its source is %+v", s)
	}
}

// A compressed file holds the same, and has a sum of its own.
func TestCompressed(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(lines)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	set := read(t, file(t, "mine.jsonl.gz", packed.String()), labels.Options{}, "large,small,mid", 3)
	plain := read(t, file(t, "mine.jsonl", lines), labels.Options{}, "large,small,mid", 3)
	if set.Sources[0].SHA256 == plain.Sources[0].SHA256 {
		t.Error("both files have one sum")
	}
}

// A file that was not copied to its end is refused, and no line of it is called faulty.
func TestCutShort(t *testing.T) {
	var rows, objects strings.Builder
	rows.WriteString("prompt,large\n")
	for i := range 1000 {
		fmt.Fprintf(&rows, "what is %d?,1\n", i*i)
		fmt.Fprintf(&objects, `{"prompt": "what is %d?", "scores": {"large": 1}}`+"\n", i*i)
	}
	for name, text := range map[string]string{"mine.csv.gz": rows.String(), "mine.jsonl.gz": objects.String()} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		path := file(t, name, packed.String()[:packed.Len()/2])
		if _, err := labels.Read([]string{path}, labels.Options{}); err == nil || err.Error() != path+": its compressed text is cut short; want the whole file" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCSV(t *testing.T) {
	set := read(t, file(t, "mine.csv", "prompt,task,large,small\n\"one,\ntwo\",sums,1,0.25\nthree,,,1\n"), labels.Options{}, "large,small", 2)
	if p := set.Prompts[0]; p.Text != "one,\ntwo" || p.Task != "sums" || p.Scores[1] != 0.25 {
		t.Errorf("the first prompt is %+v", p)
	}
	if p := set.Prompts[1]; p.Scores[0] == p.Scores[0] || p.Scores[1] != 1 {
		t.Errorf("the second prompt is %+v", p)
	}
	read(t, file(t, "mine.csv", "id,prompt,score.large,tokens,score.small\n7,one,1,90,0\n"), labels.Options{}, "large,small", 1)
}

// Named models are read in the order in which they are named, and prompts without any left out.
func TestChosenColumns(t *testing.T) {
	set := read(t, file(t, "mine.jsonl", lines), labels.Options{Columns: []string{"small", "large"}}, "small,large", 2)
	if p := set.Prompts[0]; p.Scores[0] != 0 || p.Scores[1] != 1 {
		t.Errorf("the first prompt is %+v", p)
	}
	_, err := labels.Read([]string{file(t, "mine.jsonl", lines)}, labels.Options{Columns: []string{"small", "huge"}})
	if err == nil || err.Error() != `no prompt has a score of "huge"; there are scores of large, mid, small` {
		t.Errorf("a model that is nowhere: %v", err)
	}
	_, err = labels.Read([]string{file(t, "mine.jsonl", lines)}, labels.Options{Columns: []string{"huge"}})
	if err == nil || err.Error() != `no prompt has a score of "huge"; there are scores of large, mid, small` {
		t.Errorf("no model but one that is nowhere: %v", err)
	}
}

func TestPromptsWithoutScores(t *testing.T) {
	read(t, file(t, "mine.jsonl", "{\"prompt\": \"one\"}\n"+lines), labels.Options{Unscored: true}, "large,small,mid", 4)
}

// What is written reads the same.
func TestWrite(t *testing.T) {
	set := read(t, file(t, "mine.jsonl", lines), labels.Options{}, "large,small,mid", 3)
	var b strings.Builder
	if err := set.Write(&b); err != nil {
		t.Fatal(err)
	}
	again := read(t, file(t, "again.jsonl", b.String()), labels.Options{}, "large,small,mid", 3)
	if p := again.Prompts[0]; p.Text != "one" || p.Task != "sums" || p.Group != "3" || p.Scores[0] != 1 || p.Scores[2] == p.Scores[2] {
		t.Errorf("the first prompt is %+v", p)
	}
}

// Draws of one seed are the same, and those that are skipped are not among the others.
func TestDraw(t *testing.T) {
	drawn := func(skip, count int) map[string]bool {
		set := read(t, file(t, "mine.jsonl", lines), labels.Options{}, "large,small,mid", 3)
		set.Draw(skip, count, 7)
		texts := map[string]bool{}
		for _, p := range set.Prompts {
			texts[p.Text] = true
		}
		return texts
	}
	first, rest := drawn(0, 2), drawn(2, 2)
	if len(first) != 2 || len(rest) != 1 {
		t.Errorf("drawn are %v and %v", first, rest)
	}
	for text := range rest {
		if first[text] {
			t.Errorf("%s is drawn twice", text)
		}
	}
}

// Files are one set.
func TestSeveralFiles(t *testing.T) {
	a, b := file(t, "a.jsonl", lines), file(t, "b.csv", "prompt,huge\nfour,1\n")
	set, err := labels.Read([]string{a, b}, labels.Options{})
	if err != nil || !slices.Equal(set.Columns, []string{"large", "small", "mid", "huge"}) || len(set.Prompts) != 4 || len(set.Sources) != 2 || len(set.Prompts[0].Scores) != 4 {
		t.Errorf("%+v, %v", set, err)
	}
}

// Each fault names its line and says what would be right.
func TestFaults(t *testing.T) {
	good := `{"prompt": "one", "scores": {"large": 1, "small": 0}}` + "\n"
	for text, want := range map[string]string{
		good + `{"prompt": "two", "scores": {"large": 1.5}}`:           `:2: score 1.5 of "large"; want a number from 0 to 1`,
		good + `{"prompt": "two", "scores": {"large": -1}}`:            `:2: score -1 of "large"; want a number from 0 to 1`,
		good + `{"prompt": "two", "scores": {"large": "1"}}`:           `:2: score "1" of "large"; want a number from 0 to 1`,
		good + `{"prompt": "two", "scores": {"large": 1e400}}`:         `:2: score of "large" is too large; want a number from 0 to 1`,
		good + `{"prompt": "two", "scores": {"large": true}}`:          `:2: score true of "large"; want a number from 0 to 1`,
		good + `{"prompt": "two", "scores": {"large": NaN}}`:           `:2: JSON has no NaN and no Infinity; leave out the score`,
		good + `{"prompt": "two", "scores": {"large": 1, "large": 0}}`: `:2: two scores of "large"; want one`,
		good + "\n" + `{"prompt": "two", "scores": {"Large": 1}}`:      `:3: the model "Large" is called "large" in `,
		good + `{"prompt": "two", "scores": {"": 1}}`:                  `:2: a score of a model without a name`,
		good + `{"prompt": "two", "scores": {}}`:                       `:2: no model has a score; want one or more`,
		good + `{"prompt": "two"}`:                                     `:2: no model has a score; want one or more`,
		good + `{"prompt": "two", "scores": [1, 0]}`:                   `:2: "scores" is [1, 0]; want an object`,
		good + `{"prompt": " ", "scores": {"large": 1}}`:               `:2: the prompt is empty; want its text`,
		good + `{"text": "two", "scores": {"large": 1}}`:               `:2: no "prompt"; want an object such as {`,
		good + `{"prompt": 2, "scores": {"large": 1}}`:                 `:2: "prompt" is a number; want a text`,
		good + `{"prompt": "two", "task": 2, "scores": {"large": 1}}`:  `:2: "task" is a number; want a text`,
		good + `["two"]`:      `:2: JSON of kind array; want an object such as {`,
		good + `prompt,large`: `:2: not JSON: `,
		good + `{"prompt": "` + strings.Repeat("a", 6<<20) + `"}`:          `:2: the line is too long; want at most 5242880 bytes`,
		good + `{"prompt": "` + strings.Repeat("a", 4<<20+1) + `"}` + "\n": `:2: the prompt has 4194305 bytes; want at most 4194304`,
		"\n": `: no labelled prompt; want lines such as {`,
	} {
		path := file(t, "mine.jsonl", text)
		if _, err := labels.Read([]string{path}, labels.Options{}); err == nil || !strings.HasPrefix(err.Error(), path+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: %v; want %s", strings.TrimPrefix(text, good), err, want)
		}
	}
	for text, want := range map[string]string{
		"text,large\none,1\n":             ":1: no column prompt; want a header such as prompt,task,large,small",
		"prompt,task\none,sums\n":         ":1: no column of a model; want a header",
		"prompt,large\none,1\ntwo,good\n": `:3: score "good" of "large"; want a number from 0 to 1, or nothing`,
		"prompt,large\none,NaN\n":         `:2: score NaN of "large"; want a number from 0 to 1`,
		"prompt,large\none\n":             ":2: not a row of comma-separated values: ",
		"prompt,large,large\none,1,0\n":   `:1: two columns of "large"; want one`,
		"prompt,large,LARGE\none,1,1\n":   `:2: the model "LARGE" is called "large" in `,
		"":                                ": no labelled prompt; want lines such as {",
	} {
		path := file(t, "mine.csv", text)
		if _, err := labels.Read([]string{path}, labels.Options{}); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	if _, err := labels.Read([]string{"none.jsonl"}, labels.Options{}); err == nil || !strings.HasPrefix(err.Error(), "cannot read labels: open none.jsonl: ") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// No text makes the reader fail in another way than by an error of one line.
func FuzzRead(f *testing.F) {
	f.Add(lines, true)
	f.Add("prompt,large\none,1\n", false)
	f.Fuzz(func(t *testing.T, text string, jsonl bool) {
		name := "mine.csv"
		if jsonl {
			name = "mine.jsonl"
		}
		path := file(t, name, text)
		set, err := labels.Read([]string{path}, labels.Options{})
		if err == nil && len(set.Prompts) == 0 {
			t.Error("no prompt, and no error")
		}
	})
}
