package sampling

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/router/quality/scoring"
)

// sums returns prompts that ask for sums, of two numbers or, each third, of four.
func sums(t *testing.T, n int, kind scoring.Kind) []Prompt {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		terms, sum := fmt.Sprintf("%d + %d", i, i), 2*i
		if i%3 == 2 {
			terms, sum = fmt.Sprintf("%s + %d + %d", terms, i, i), 4*i
		}
		fmt.Fprintf(&lines, `{"prompt": "What is %s?", "answer": %d, "task": "sums", "group": %q}`+"\n", terms, sum, terms[:1])
	}
	list, err := Read(strings.NewReader(lines.String()), "sums.jsonl", kind, "answer")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// adder answers with the sum of the first terms of a prompt, and states its tokens.
func adder(terms int) Ask {
	return func(_ context.Context, q loadgen.Question) (loadgen.Completion, error) {
		sum := 0
		for _, term := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(q.Prompt, "What is "), "?"), " + ")[:2] {
			var n int
			fmt.Sscan(term, &n)
			sum += n
		}
		if long := strings.Count(q.Prompt, "+") == 3; long && terms == 4 {
			sum *= 2
		}
		return loadgen.Completion{Text: fmt.Sprintf("The answer is %d.", sum), Prompt: 20, Output: 10}, nil
	}
}

// config is a sampling of a large size, which adds well, and a small one, which forgets terms.
func config(prompts []Prompt, kind scoring.Kind) Config {
	return Config{
		Sizes: []Size{{"large", adder(4)}, {"small", adder(2)}}, Prompts: prompts, Kind: kind, MaxTokens: 50, Concurrency: 3,
		Write: func(Label) error { return nil },
		Wait:  func(context.Context, time.Duration) error { return nil },
	}
}

// labels runs a sampling and returns the labels by their prompts.
func labels(t *testing.T, c Config) (map[string]map[string]float64, Report) {
	t.Helper()
	got := map[string]map[string]float64{}
	c.Write = func(l Label) error {
		got[l.Prompt] = l.Scores
		return nil
	}
	report, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got, report
}

// Each prompt has the score of each size, by its own answer, and by the largest's.
func TestScores(t *testing.T) {
	for _, kind := range []scoring.Kind{scoring.Number, scoring.Agreement} {
		prompts := sums(t, 9, kind)
		got, report := labels(t, config(prompts, kind))
		for i, p := range prompts {
			want := 1.0
			if i%3 == 2 {
				want = 0
			}
			if s := got[p.Text]; s["large"] != 1 || s["small"] != want || len(s) != 2 {
				t.Errorf("%s: %s has the scores %v; want 1 and %v", kind, p.Text, s, want)
			}
		}
		if report.Labelled != 9 || report.Failed != 0 || report.Tokens != 9*2*30 {
			t.Errorf("%s: %+v; want 9 labels of 60 tokens each", kind, report)
		}
	}
}

// A judge sees each answer in both orders. One that decides by the order alone finds ties.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		verdict     func(prompt string) string
		long        float64 // of the small size's answers to long prompts, which are wrong
		disagreed   int
		tokens      int
		fault       string
		unjudgeable bool
	}{
		"by what is right": {func(p string) string {
			// Answers to long prompts end in 4i where they are right.
			a, b, _ := strings.Cut(p, "|")
			if len(a) > len(b) || len(a) == len(b) && a > b {
				return "[[A]]"
			}
			return "[[B]]"
		}, 0, 0, 0, "", false},
		"by the order": {func(string) string { return "Verdict: A" }, 0.5, 3, 0, "", false},
		"not at all":   {func(string) string { return "Both are nice." }, 0, 0, 0, `small: its answer has no verdict (A, B or tie): "Both are nice."`, true},
	} {
		prompts := sums(t, 9, scoring.Judge)
		asked := 0
		conf := config(prompts, scoring.Judge)
		conf.Template = "{{a}}|{{b}}{{prompt}}"
		conf.Concurrency = 1
		var mu sync.Mutex
		conf.Judge = func(_ context.Context, q loadgen.Question) (loadgen.Completion, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			pair, _, _ := strings.Cut(q.Prompt, "What")
			return loadgen.Completion{Text: c.verdict(pair), Prompt: 40, Output: 5}, nil
		}
		got, report := labels(t, conf)
		for i, p := range prompts {
			want := 0.5 // the same answers: a tie, and nothing to ask
			if i%3 == 2 {
				if want = c.long; c.unjudgeable {
					continue
				}
			}
			if s := got[p.Text]; s["large"] != 0.5 || s["small"] != want {
				t.Errorf("%s: %s has the scores %v; want .5 and %v", name, p.Text, s, want)
			}
		}
		if asked != 6 || report.Disagreed != c.disagreed {
			t.Errorf("%s: asked %d times, %+v; want 6 times and %d disagreements", name, asked, report, c.disagreed)
		}
		if c.unjudgeable && (report.Failed != 3 || !strings.Contains(report.Fault.Error(), c.fault)) {
			t.Errorf("%s: %d failed, the last with %v; want 3 and %s", name, report.Failed, report.Fault, c.fault)
		}
	}
}

// A run stays within its budget, whatever is asked at once, and the next goes on where it ended.
func TestBudget(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		path := filepath.Join(t.TempDir(), "labels.jsonl")
		prompts := sums(t, 30, scoring.Number)
		labelled, runs := 0, 0
		for ; labelled < len(prompts) && runs < 30; runs++ {
			file, err := Open(path, []string{"large", "small"}, scoring.Number)
			if err != nil {
				t.Fatal(err)
			}
			c := config(file.Left(prompts), scoring.Number)
			c.Concurrency, c.Budget, c.Write = concurrency, 700, file.Add
			report, err := Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if report.Tokens > c.Budget || report.Labelled == 0 {
				t.Fatalf("%d at once: %+v; want labels within %d tokens", concurrency, report, c.Budget)
			}
			if report.OutOfBudget != (report.Left() > 0) {
				t.Errorf("%d at once: %+v; want a word on the budget where prompts are left", concurrency, report)
			}
			labelled += report.Labelled
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
		// A prompt takes 60 tokens, of which about 200 are reserved until it has ended.
		if labelled != len(prompts) || runs > 4 {
			t.Errorf("%d at once: %d labels in %d runs; want all in at most 4", concurrency, labelled, runs)
		}
	}
	c := config(sums(t, 1, scoring.Number), scoring.Number)
	c.Budget = 50
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "a budget of 50 tokens is too small for one") {
		t.Errorf("%v; want an error for a budget that no prompt fits into", err)
	}
}

// What may pass is tried again after pauses that double; what will not is not.
func TestRetries(t *testing.T) {
	busy, gone, refused := &loadgen.Refusal{StatusCode: 429}, errors.New("connection reset"), &loadgen.Refusal{StatusCode: 400, Message: "too long"}
	for _, c := range []struct {
		faults []error // of the first attempts
		tries  int
		want   string
		tokens int // beyond those of one large and one small answer, at least
	}{
		{nil, 1, "", 0},
		{[]error{busy, busy}, 3, "", 0},
		{[]error{gone}, 2, "", 50}, // the engine may have computed an answer
		{[]error{refused}, 1, "small: status 400: too long", -30},
		{[]error{busy, busy, busy, busy, busy, busy}, attempts, "small: status 429", -30},
	} {
		conf := config(sums(t, 2, scoring.Number), scoring.Number)
		conf.Concurrency = 1
		var pauses []time.Duration
		conf.Wait = func(_ context.Context, d time.Duration) error {
			pauses = append(pauses, d)
			return nil
		}
		tries := 0
		conf.Sizes[1].Ask = func(ctx context.Context, q loadgen.Question) (loadgen.Completion, error) {
			if q.Prompt == conf.Prompts[0].Text {
				if tries++; tries <= len(c.faults) {
					return loadgen.Completion{}, c.faults[tries-1]
				}
			}
			return adder(2)(ctx, q)
		}
		report, err := Run(t.Context(), conf)
		if err != nil || tries != c.tries || (report.Failed == 1) != (c.want != "") || c.want != "" && report.Fault.Error() != c.want {
			t.Errorf("%v: %d tries, %+v, %v; want %d and %q", c.faults, tries, report, err, c.tries, c.want)
		}
		for i, d := range pauses {
			if d != time.Second<<i {
				t.Errorf("%v: pauses of %v; want 1 s, 2 s, 4 s, …", c.faults, pauses)
			}
		}
		if report.Tokens < 120+c.tokens {
			t.Errorf("%v: %d tokens; want at least %d", c.faults, report.Tokens, 120+c.tokens)
		}
	}
}

// A run without a label, and one whose engine has gone, is an error, with what was labelled before kept.
func TestEnginesThatAreGone(t *testing.T) {
	fails := func(from int) (Report, error) {
		c := config(sums(t, 60, scoring.Number), scoring.Number)
		c.Concurrency = 1
		n := 0
		c.Sizes[0].Ask = func(ctx context.Context, q loadgen.Question) (loadgen.Completion, error) {
			if n++; n > from {
				return loadgen.Completion{}, &loadgen.Refusal{StatusCode: 404}
			}
			return adder(4)(ctx, q)
		}
		return Run(t.Context(), c)
	}
	if report, err := fails(0); err == nil || !strings.HasPrefix(err.Error(), "no prompt was labelled: 20 failed, the last with: large: status 404") {
		t.Errorf("%+v, %v; want an error for no label", report, err)
	}
	if report, err := fails(5); report.Labelled != 5 || err == nil || !strings.HasPrefix(err.Error(), "stopped, since 20 prompts in a row failed") {
		t.Errorf("%+v, %v; want 5 labels, and an error", report, err)
	}
}

// An interruption ends a run, as does a label that cannot be written.
func TestEnds(t *testing.T) {
	full := errors.New("no space left")
	c := config(sums(t, 9, scoring.Number), scoring.Number)
	c.Write = func(Label) error { return full }
	if _, err := Run(t.Context(), c); err != full {
		t.Errorf("%v; want %v", err, full)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c = config(sums(t, 9, scoring.Number), scoring.Number)
	c.Concurrency = 1
	var done []int
	c.Progress = func(n, of int) {
		if done = append(done, n); n == 2 {
			cancel()
		}
	}
	if report, err := Run(ctx, c); err != context.Canceled || report.Labelled != 2 || report.Failed != 0 || !slices.Equal(done, []int{1, 2}) {
		t.Errorf("%+v, %v, progress %v; want two labels, and the interruption", report, err, done)
	}
}

// The report says what a user may want to change.
func TestReport(t *testing.T) {
	r := Report{
		Prompts: 10, Labelled: 6, Failed: 1, Fault: errors.New("small: status 500"), Tokens: 700, OutOfBudget: true, Compared: 4, Disagreed: 1,
		Sizes: []SizeReport{{Name: "large", Answers: 6, sum: 6}, {Name: "small", Answers: 6, Cut: 2, Empty: 1, sum: 3}},
	}
	var out strings.Builder
	r.Write(&out)
	const want = `labelled 6 of 10 prompts with 700 tokens
  large: mean score 1.000
  small: mean score 0.500
note: 2 of 6 answers of small were cut at --max-tokens; a higher bound may score them better
note: 1 of 6 answers of small have no text
the judge decided otherwise with the answers turned on 1 of 4 pairs, which count as ties
skipped 1 of 10 prompts, which failed, the last with: small: status 500; the same command tries them again
stopped by --budget-tokens with 3 prompts left; the same command goes on with them
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
