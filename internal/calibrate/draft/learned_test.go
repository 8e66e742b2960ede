package draft_test

import (
	"strings"
	"testing"

	"gearshift/internal/calibrate/draft"
	"gearshift/internal/scenario"
)

// What was learned replaces values, with a comment on each, in every notation of a file.
func TestWithLearned(t *testing.T) {
	for _, name := range []string{"tiny", "titan-rtx-opt"} {
		s, text, err := scenario.LoadText(name)
		if err != nil {
			t.Fatal(err)
		}
		last := len(s.Profiles()) - 1
		v := s.Variants[len(s.Variants)-1].Name
		p := *s.Profiles()[last].Slower(2)
		out, err := draft.WithLearned(name, text, draft.Learned{
			Profiles:  []draft.LearnedProfile{{Variant: v, Profile: p, From: "fitted to 70 answers"}},
			Qualities: []draft.LearnedQuality{{Task: s.Tasks[0].Name, Variant: v, Quality: 0.7123, From: "scored in 40 answers by 3 keys"}},
			Prompt:    50, Output: 20, From: "mean of 70 answers",
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"# fitted to 70 answers", "# " + v + " scored in 40 answers by 3 keys", "mean: 50", "# mean of 70 answers"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		got, err := scenario.Parse(name, out)
		if err != nil {
			t.Fatal(err)
		}
		if q := got.Tasks[0].Quality[v]; q != 0.712 {
			t.Errorf("%s: quality %v", name, q)
		}
		is, _ := got.Profiles()[last].Step(4, 4, 900, 0)
		want, _ := (&p).Step(4, 4, 900, 0)
		if is < 0.9*want || is > 1.1*want {
			t.Errorf("%s: a step takes %v ms, learned were %v", name, is, want)
		}
		if *got.Profiles()[0] != *s.Profiles()[0] {
			t.Errorf("%s: another size has changed", name)
		}
	}
}
