package prompts_test

import (
	"math"
	"slices"
	"testing"

	"gearshift/workloads/prompts"
)

func nineModels(t *testing.T) *prompts.Set {
	t.Helper()
	set, err := prompts.BuiltIn(prompts.NineModels)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The packed prompts are those that the README describes, each of them once, with all scores.
func TestPackedPromptsAreThoseOfTheReadme(t *testing.T) {
	set := nineModels(t)
	if len(set.Prompts) != 5608 || len(set.Columns) != 9 {
		t.Fatalf("%d prompts of %d models", len(set.Prompts), len(set.Columns))
	}
	seen := map[string]bool{}
	for i, p := range set.Prompts {
		if p.Text == "" || seen[p.Text] {
			t.Fatalf("prompt %d is empty, or there before: %q", i, p.Text)
		}
		seen[p.Text] = true
		for c, x := range p.Scores {
			if !(x >= 0 && x <= 1) {
				t.Fatalf("prompt %d: score %v of %s", i, x, set.Columns[c])
			}
		}
	}
	means := set.Means()
	for name, want := range map[string]float64{"qwen2.5-7b-instruct": .5204, "llama-3.1-8b-instruct": .5607, "llama-3.1-nemotron-51b-instruct": .6213, "llama3-chatqa-1.5-8b": .1751} {
		if got := means[slices.Index(set.Columns, name)]; math.Abs(got-want) > .0001 {
			t.Errorf("%s scores %.4f in the mean, want %v", name, got, want)
		}
	}
	if _, err := prompts.BuiltIn("ten-models"); err == nil || err.Error() != `no prompts are called "ten-models"; built in are nine-models` {
		t.Errorf("another name: %v", err)
	}
}

// About half of the prompts are played, which follows from the text alone.
func TestHalves(t *testing.T) {
	set := nineModels(t)
	fitted, played := set.Halves()
	if n := len(fitted.Prompts); n+len(played.Prompts) != len(set.Prompts) || n < 2700 || n > 2900 {
		t.Errorf("%d of %d prompts are fitted, %d are played", n, len(set.Prompts), len(played.Prompts))
	}
	for _, p := range played.Prompts {
		if !p.Played() || slices.ContainsFunc(fitted.Prompts[:100], func(q prompts.Prompt) bool { return q.Text == p.Text }) {
			t.Fatalf("in the wrong half: %q", p.Text)
		}
	}
}

// A set of some columns has the prompts with a score of each.
func TestOfColumns(t *testing.T) {
	nan := float32(math.NaN())
	set := &prompts.Set{Name: "a", Columns: []string{"x", "y", "z"}, Prompts: []prompts.Prompt{
		{Text: "1", Scores: []float32{0, .5, 1}}, {Text: "2", Scores: []float32{1, nan, 0}}, {Text: "3", Scores: []float32{nan, 1, 0}},
	}}
	of := set.Of([]string{"z", "y"})
	if len(of.Prompts) != 2 || of.Prompts[1].Text != "3" || !slices.Equal(of.Prompts[0].Scores, []float32{1, .5}) || !slices.Equal(of.Means(), []float64{.5, .75}) {
		t.Errorf("got %+v with means %v", of, of.Means())
	}
	if got := set.Means(); !slices.Equal(got, []float64{.5, .75, 1. / 3}) {
		t.Errorf("unknown scores count: %v", got)
	}
	if of := set.Of([]string{"x", "w"}); len(of.Prompts) != 0 {
		t.Errorf("a column that is not there: %+v", of)
	}
}
