package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// labelFile writes labelled prompts: the small model fails on those about proofs. If words do
// not tell, scores are drawn.
func labelFile(t *testing.T, n int, tell bool) string {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(n), 1))
	var b strings.Builder
	for i := range n {
		topic, small := "greetings", 1
		if i%2 == 0 {
			topic, small = "proofs", 0
		}
		if !tell {
			small = random.IntN(2)
		}
		fmt.Fprintf(&b, `{"prompt": "question %d about %s", "scores": {"large": %d, "small": %d}}`+"\n", random.IntN(1000), topic, min(1, random.IntN(10)), small)
	}
	return write(t, "labels.jsonl", b.String())
}

// From labels to a predictor in production, by the commands.
func TestQualityCommands(t *testing.T) {
	store, data := filepath.Join(t.TempDir(), "store.db"), labelFile(t, 300, true)
	at := func(args ...string) []string { return append(append([]string{"quality"}, args...), "--store", store) }
	picture := filepath.Join(t.TempDir(), "mine.svg")
	out := succeed(t, at("fit", "--data", data, "--name", "mine", "--plot", picture)...)
	for _, want := range []string{"mine@1: 300 labelled prompts, 2 models", "GAIN (95 %)", ": enough labels", "promote it: gearshift quality promote mine@1 --store " + store} {
		if !strings.Contains(out, want) {
			t.Errorf("fit prints no %q:\n%s", want, out)
		}
	}
	if drawn, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(drawn), "<svg ") {
		t.Errorf("the picture is %.40q, %v", drawn, err)
	}
	if out := succeed(t, at("show", "mine")...); !strings.Contains(out, "300 labelled prompts, seed 1") || !strings.Contains(out, "labels.jsonl, SHA-256") || !strings.Contains(out, "PREDICTED → MEAN SCORE") {
		t.Errorf("show prints:\n%s", out)
	}
	fail(t, at("predict", "--data", data), "no predictor of store "+store+" is in production")
	if out := succeed(t, at("promote", "mine")...); out != "mine@1 is in production\n" {
		t.Errorf("promote prints %q", out)
	}
	if out := succeed(t, at("ls")...); !strings.Contains(out, "mine@1     production  300") {
		t.Errorf("ls prints:\n%s", out)
	}
	if out := succeed(t, at("check", "--data", data, "--scenario", "tiny")...); !strings.Contains(out, "was fitted to labels.jsonl: these figures flatter it") || !strings.Contains(out, "tiny: tasks chat: quality small: 0.6, and") {
		t.Errorf("check prints:\n%s", out)
	}
	fail(t, at("rm", "mine"), `predictor "mine@1" is in production`)
	if out := succeed(t, at("rollback")...); out != "no predictor is in production, as before\n" {
		t.Errorf("rollback prints %q", out)
	}
	if out := succeed(t, at("rm", "mine")...); out != "removed mine@1\n" {
		t.Errorf("rm prints %q", out)
	}
}

// Each prompt is predicted in a line of its own, in the file's order, with or without scores.
func TestQualityPredict(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store.db")
	succeed(t, "quality", "fit", "--data", labelFile(t, 300, true), "--name", "mine", "--store", store)
	prompts := write(t, "prompts.jsonl", `{"prompt": "question 7 about proofs"}`+"\n"+`{"prompt": "question 7 about greetings", "scores": {"small": 1}, "group": 3}`+"\n")
	lines := strings.Split(strings.TrimSpace(succeed(t, "quality", "predict", "--data", prompts, "--quality", "mine", "--store", store, "--format", "jsonl")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	var small []float64
	for _, line := range lines {
		var keys map[string]json.RawMessage
		var p struct {
			Scores map[string]float64
			Sure   float64
		}
		if err := json.Unmarshal([]byte(line), &keys); err != nil || len(keys) != 2 || json.Unmarshal([]byte(line), &p) != nil || len(p.Scores) != 2 || p.Sure < 0 || p.Sure > 1 {
			t.Errorf("line %s, %v", line, err)
		}
		small = append(small, p.Scores["small"])
	}
	if small[0] > 0.3 || small[1] < 0.7 {
		t.Errorf("the small model is predicted %.2f on proofs and %.2f on greetings", small[0], small[1])
	}
}

// With a key, a fit is the same in each store; without, stores differ.
func TestQualityFitRepeats(t *testing.T) {
	data := labelFile(t, 300, true)
	digest := func(args ...string) string {
		t.Helper()
		store := filepath.Join(t.TempDir(), "store.db")
		var r struct {
			SHA256 string
			Enough bool
		}
		out := succeed(t, append([]string{"quality", "fit", "--data", data, "--name", "mine", "--store", store, "--format", "json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil || !r.Enough {
			t.Errorf("%v: %s", err, out)
		}
		return r.SHA256
	}
	if a, b := digest("--key", "7"), digest("--key", "7"); a != b {
		t.Errorf("one key made %s and %s", a, b)
	}
	if a, b := digest(), digest(); a == b {
		t.Errorf("two stores have one key, which made %s", a)
	}
}

// Labels that are not enough are stored, and promoted by force alone.
func TestQualityNotEnough(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store.db")
	at := func(args ...string) []string { return append(append([]string{"quality"}, args...), "--store", store) }
	if out := succeed(t, at("fit", "--data", labelFile(t, 60, false), "--name", "mine")...); !strings.Contains(out, "not enough") || strings.Contains(out, "promote it") {
		t.Errorf("fit prints:\n%s", out)
	}
	fail(t, at("promote", "mine"), "cannot promote mine@1: ", "not enough", "--force with --reason")
	fail(t, at("promote", "mine", "--force"), "--force and --reason go together")
	succeed(t, at("promote", "mine", "--force", "--reason", "a test")...)
	if out := succeed(t, at("show", "mine")...); !strings.Contains(out, "promoted by force  a test") {
		t.Errorf("show prints:\n%s", out)
	}
}

// Labels are drawn for a fit and for a check, without a prompt in both.
func TestQualityLabels(t *testing.T) {
	data := labelFile(t, 60, true)
	lines := func(args ...string) []string {
		return strings.Split(strings.TrimSpace(succeed(t, append([]string{"quality", "labels", "--data", data}, args...)...)), "\n")
	}
	all, first, rest := lines(), lines("--count", "40"), lines("--skip", "40")
	if len(all) != 60 || len(first) != 40 || len(rest) != 20 || !strings.HasPrefix(all[0], `{"prompt":"question `) {
		t.Errorf("%d lines, of which %d and %d: %s", len(all), len(first), len(rest), all[0])
	}
	if out := lines("--sizes", "small"); len(out) != 60 || strings.Contains(out[0], "large") {
		t.Errorf("with one model: %s", out[0])
	}
	fail(t, []string{"quality", "labels", "--data", data, "--skip", "60"}, "--skip 60 leaves none of 60 prompts")
	fail(t, []string{"quality", "labels", "--data", data, "--count", "-1"}, "--count -1")
}

func TestQualityFaults(t *testing.T) {
	store, data := filepath.Join(t.TempDir(), "store.db"), labelFile(t, 60, true)
	fail(t, []string{"quality", "fit"}, "--data FILE and --name NAME are missing; see gearshift quality fit --help")
	fail(t, []string{"quality", "fit", "--data", "none.jsonl", "--name", "mine", "--store", store}, "cannot read labels: open none.jsonl")
	fail(t, []string{"quality", "fit", "--data", data, "--name", "Mine!", "--store", store}, `--name "Mine!" cannot name a predictor`)
	fail(t, []string{"quality", "fit", "--data", data, "--name", "mine", "--plot", "x.png", "--store", store}, "--plot x.png: want a name that ends in .svg")
	fail(t, []string{"quality", "fit", "--data", data, "--name", "mine", "--format", "xml", "--store", store}, "table or json")
	fail(t, []string{"quality", "fit", "--data", data, "--name", "mine", "--sizes", "small,huge", "--store", store}, `no prompt has a score of "huge"; there are scores of large, small`)
	few := write(t, "few.jsonl", `{"prompt": "one", "scores": {"large": 1, "small": 0}}`)
	fail(t, []string{"quality", "fit", "--data", few, "--name", "mine", "--store", store}, "too few labelled prompts")
	many := `{"prompt": "one", "scores": {"m1": 1`
	for i := range 12 {
		many += fmt.Sprintf(`, "m%d": 1`, i+2)
	}
	fail(t, []string{"quality", "fit", "--data", write(t, "many.jsonl", many+"}}"), "--name", "mine", "--store", store}, "scores of 13 models; want at most 12, chosen by --sizes: m1, m2")
	wrong := write(t, "wrong.jsonl", `{"prompt": "one", "scores": {"large": 2}}`)
	fail(t, []string{"quality", "fit", "--data", wrong, "--name", "mine", "--store", store}, `wrong.jsonl:1: score 2 of "large"; want a number from 0 to 1`)
	succeed(t, "quality", "fit", "--data", data, "--name", "mine", "--store", store)
	fail(t, []string{"quality", "show", "yours", "--store", store}, `no predictor "yours" in store `+store+"; it has mine")
	fail(t, []string{"quality", "predict", "--data", data, "--quality", "mine", "--format", "csv", "--store", store}, "want jsonl")
	fail(t, []string{"quality", "check", "--data", data, "--quality", "mine@4", "--store", store}, `predictor "mine" has no version 4; it has 1`)
	fail(t, []string{"quality", "rollback", "--store", store}, "no promotion is left to undo")
}
