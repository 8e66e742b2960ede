package qualitycmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// engine is a server that answers sums: the model large always, small if they have two terms.
// It knows the key, if that is not empty, and counts requests.
type engine struct {
	*httptest.Server
	asked atomic.Int64
}

func newEngine(t *testing.T, key string, models ...string) *engine {
	t.Helper()
	e := &engine{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key != "" && r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/v1/models" {
			var data []map[string]string
			for _, m := range models {
				data = append(data, map[string]string{"id": m})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
			return
		}
		e.asked.Add(1)
		var body struct {
			Model    string
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":10}}`,
			answer(body.Model, body.Messages[0].Content))
	}))
	t.Cleanup(e.Close)
	return e
}

// answer is what a model says to a prompt such as "1 + 2?". As a judge it prefers the higher number.
func answer(model, prompt string) string {
	if pair, _, ok := strings.Cut(prompt, "|"); ok {
		a, b, _ := strings.Cut(pair, " or ")
		return map[bool]string{true: "[[A]]", false: "[[B]]"}[len(a) > len(b) || len(a) == len(b) && a > b]
	}
	sum := 0
	for i, term := range strings.Split(strings.TrimSuffix(prompt, "?"), " + ") {
		var n int
		fmt.Sscan(term, &n)
		if model == "large" || i < 2 {
			sum += n
		}
	}
	return fmt.Sprintf("#### %d", sum)
}

// command runs sample in a folder that has the prompts, and returns what it printed.
func command(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var prompts strings.Builder
	for i := 1; i <= 4; i++ {
		fmt.Fprintf(&prompts, "{\"prompt\": \"%d + 1?\", \"answer\": %d}\n{\"prompt\": \"%d + 1 + 2?\", \"answer\": %d}\n", i, i+1, i, i+3)
	}
	path := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(path, []byte(prompts.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	c := newSample()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetArgs(append([]string{"--prompts", path, "--out", filepath.Join(dir, "labels.jsonl")}, args...))
	err = c.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// scoresOf returns the small size's score by prompt, and fails on another score of the large.
func scoresOf(t *testing.T, dir string, large float64) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "labels.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	scores := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		var label struct {
			Prompt string
			Scores map[string]float64
		}
		if err := json.Unmarshal([]byte(line), &label); err != nil {
			t.Fatal(err)
		}
		if _, again := scores[label.Prompt]; again || label.Scores["large"] != large {
			t.Errorf("label %s; want %v of the large size, once", line, large)
		}
		scores[label.Prompt] = label.Scores["small"]
	}
	return scores
}

// Each way to score that the prompts allow finds the small size wrong where there are three terms.
func TestSample(t *testing.T) {
	router := newEngine(t, "", "auto", "large", "small")
	judge := newEngine(t, "", "whatever")
	template := filepath.Join(t.TempDir(), "judge.txt")
	if err := os.WriteFile(template, []byte("{{a}} or {{b}}|{{prompt}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for score, c := range map[string]struct {
		large, right float64 // the small size's where it is right; where it is not, 0
		flags        []string
	}{
		"number":    {1, 1, nil},
		"contains":  {1, 1, nil},
		"agreement": {1, 1, nil},
		"judge":     {0.5, 0.5, []string{"--judge", "critic=" + judge.URL, "--judge-prompt", template}},
	} {
		dir := t.TempDir()
		args := append([]string{"--score", score, "--engine", "large=" + router.URL, "--engine", "small=" + router.URL + "/v1/#small"}, c.flags...)
		out, _, err := command(t, dir, args...)
		if err != nil || !strings.HasPrefix(out, "labelled 8 of 8 prompts with ") || !strings.Contains(out, "next: gearshift quality fit --data ") {
			t.Errorf("%s: %q, %v; want 8 labels, and what to do next", score, out, err)
		}
		scores := scoresOf(t, dir, c.large)
		for prompt, got := range scores {
			want := c.right
			if strings.Count(prompt, "+") == 2 {
				want = 0
			}
			if got != want {
				t.Errorf("%s: %s has the score %v; want %v", score, prompt, got, want)
			}
		}
		if len(scores) != 8 {
			t.Errorf("%s: %d labels; want 8", score, len(scores))
		}
	}
}

// A second run asks what the first did not, and a third nothing.
func TestSampleGoesOn(t *testing.T) {
	e, dir := newEngine(t, "", "large", "small"), t.TempDir()
	args := []string{"--score", "number", "--engine", "large=" + e.URL, "--engine", "small=" + e.URL, "--seed", "3"}
	for _, c := range []struct {
		flags     []string
		said, out string
		asked     int64
		labels    int
	}{
		{[]string{"--limit", "3"}, "", "labelled 3 of 3 prompts with 180 tokens", 6, 3},
		{[]string{"--budget-tokens", "1300"}, "has labels of 3 of 8 prompts; 5 are left to ask", "stopped by --budget-tokens", 0, 4},
		{nil, "are left to ask", "labelled", 16, 8},
		{nil, "has labels of 8 of 8 prompts; 0 are left to ask", "", 16, 8},
	} {
		out, said, err := command(t, dir, append(args, c.flags...)...)
		if err != nil || !strings.Contains(said, c.said) || !strings.Contains(out, c.out) {
			t.Errorf("%v: %q and %q, %v; want %q and %q", c.flags, out, said, err, c.out, c.said)
		}
		if n := e.asked.Load(); c.asked > 0 && n != c.asked {
			t.Errorf("%v: asked %d times by then; want %d", c.flags, n, c.asked)
		}
		if got := len(scoresOf(t, dir, 1)); got < c.labels {
			t.Errorf("%v: %d labels; want %d", c.flags, got, c.labels)
		}
	}
}

// A key goes to the engines that it is for.
func TestSampleKeys(t *testing.T) {
	a, b := newEngine(t, "one", "large"), newEngine(t, "two", "small")
	t.Setenv("KEY_ONE", "one")
	t.Setenv("KEY_TWO", "two")
	args := []string{"--score", "number", "--engine", "large=" + a.URL, "--engine", "small=" + b.URL}
	for _, c := range []struct {
		keys []string
		want string
	}{
		{[]string{"--api-key-env", "KEY_ONE", "--api-key-env", "small=KEY_TWO"}, ""},
		{[]string{"--api-key-env", "KEY_ONE"}, "it asks for an API key that it knows (--api-key-env small=VARIABLE)"},
		{[]string{"--api-key-env", "tiny=KEY_ONE"}, "--api-key-env tiny=…: there is no such engine; want one of large, small"},
		{[]string{"--api-key-env", "NO_SUCH_KEY"}, "NO_SUCH_KEY"},
	} {
		_, _, err := command(t, t.TempDir(), append(args, c.keys...)...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v; want %q", c.keys, err, c.want)
		}
	}
}

// What is wrong is said before an engine is asked, and before a file is written.
func TestSampleRefuses(t *testing.T) {
	e := newEngine(t, "", "a", "b")
	large, small := "--engine=large="+e.URL+"#a", "--engine=small="+e.URL+"#b"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--score", "f1", large, small}, `--score: unknown way to score "f1"; want one of exact,`},
		{[]string{"--score", "exact", large}, "--engine: there is 1; want two or more sizes to compare, the largest first"},
		{[]string{"--score", "exact", large, large}, "there are two sizes called large; want a name for each"},
		{[]string{"--score", "exact", large, "--engine", e.URL}, "want NAME=URL or NAME=URL#MODEL"},
		{[]string{"--score", "exact", large, "--engine", "tiny=" + e.URL}, "tiny: cannot ask " + e.URL + ": it has several models; name one of a, b"},
		{[]string{"--score", "exact", large, "--engine", "tiny=" + e.URL + "#c"}, `it has no model "c"; it has a, b`},
		{[]string{"--score", "judge", large, small}, "--score judge: want --judge NAME=URL too"},
		{[]string{"--score", "exact", large, small, "--judge", "c=" + e.URL}, "--judge and --judge-prompt have no meaning with --score exact"},
		{[]string{"--score", "json-schema", large, small}, `prompts.jsonl:1: no "schema" to validate answers with`},
		{[]string{"--score", "choice", large, small}, `prompts.jsonl:1: the answer "2" has no letter from A to J`},
		{[]string{"--score", "exact", large, small, "--answers", "right"}, `prompts.jsonl:1: no "right", which --score exact compares answers with`},
		{[]string{"--score", "exact", large, small, "--share", "NaN"}, "--share NaN: want a number above 0, up to 1"},
		{[]string{"--score", "exact", large, small, "--max-tokens", "0"}, "--max-tokens 0: want 1 or more"},
		{[]string{"--score", "exact", large, small, "--concurrency", "0"}, "--concurrency 0: want 1 to 1024"},
		{[]string{"--score", "exact", large, small, "--timeout", "0"}, "--timeout 0s: want a time above 0"},
	} {
		dir := t.TempDir()
		_, _, err := command(t, dir, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v; want %q", c.args, err, c.want)
		}
		if info, err := os.Stat(filepath.Join(dir, "labels.jsonl")); err == nil && info.Size() > 0 {
			t.Errorf("%v: a file of %d bytes was written", c.args, info.Size())
		}
	}
	if n := e.asked.Load(); n != 0 {
		t.Errorf("%d prompts were sent; want none", n)
	}
}
