package evalcmd

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// A size that is evaluated alone has none of the controllers of the scenario: it refuses nothing.
func TestTheShortReportOfSizesAloneAmongOthers(t *testing.T) {
	r := evaluation.Report{Headlines: []string{"u1"}, Variants: []fleet.Variant{{Name: "small"}}, Results: []evaluation.Result{
		{Policy: "slackfit", Workload: "u1", Served: &evaluation.Served{}}, {Policy: "static:small", Workload: "u1", Rule: true},
	}}
	var b strings.Builder
	if err := writeShort(&b, &r); err != nil || !strings.Contains(b.String(), "–        0.0%") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Whatever the names are, and however many sizes there are, the short report fits.
func TestTheShortReportFits(t *testing.T) {
	result := func(policy, workload string, rule bool, runs ...float64) evaluation.Result {
		return evaluation.Result{Policy: policy, Workload: workload, Rule: rule, Runs: runs, Utility: evaluation.Bootstrap(runs)}
	}
	long := "task-threshold:25,314/4,118/2,138/6,196/25,314/4,118/2,138/6,196/25,314/4,118/2,138/6,196"
	for _, sizes := range []int{1, 3, 12} {
		r := evaluation.Report{Results: []evaluation.Result{
			result("mine", "trace:/a/folder/that/is/deep/enough/to/be/wide.csv@5", false, 0.5), result(long, "trace:/a/folder/that/is/deep/enough/to/be/wide.csv@5", true, 0.4),
		}}
		for range sizes {
			r.Variants = append(r.Variants, fleet.Variant{Name: "a-size-with-a-name"})
		}
		r.Headlines = []string{r.Results[0].Workload}
		r.Verdicts = evaluation.Verdicts(r.Results, r.Headlines)
		var b strings.Builder
		if err := writeShort(&b, &r); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(line) - 1; n > 100 && !strings.Contains(line, "over the best rule") {
				t.Errorf("%d sizes: %d columns: %s", sizes, n, line)
			}
		}
		for _, want := range []string{"mine ", "wide.csv@5", "0.400 (0.400–0.400)", "over the best rule, " + long, "in one run: not settled"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d sizes: no %q in\n%s", sizes, want, text)
			}
		}
	}
}
