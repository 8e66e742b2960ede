package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/output"
)

// StoredVerdict returns the comparison that a stored policy carries, which decides promotion;
// false if it has none that this version can read.
func StoredVerdict(entry checkpoints.Entry) (evaluation.Verdict, bool) {
	s, err := evaluationOf(entry)
	if err != nil {
		return evaluation.Verdict{}, false
	}
	return s.HeldOut.Verdict(entry.Ref().String()), true
}

var errNotCompared = errors.New("it has no stored comparison with rules; train it again with this version")

// evaluationOf reads the evaluation that a stored policy carries, which has a comparison with rules.
func evaluationOf(entry checkpoints.Entry) (s Evaluation, err error) {
	if len(entry.Meta.Evaluation) > 0 {
		if err := json.Unmarshal(entry.Meta.Evaluation, &s); err != nil { // another version's
			return s, fmt.Errorf("its evaluation cannot be read: %w; train it again with this version", err)
		}
	}
	if len(s.HeldOut.Policies) == 0 {
		return s, errNotCompared
	}
	return s, nil
}

// Admit returns an error unless a policy may go into production or, for one of placement, into a scenario: its stored evaluation must be
// better than the best rule by more than chance. If it is not, Admit writes the comparison to w,
// and the error has the command that promotes the rule.
func Admit(entry checkpoints.Entry, promote Promotion, w io.Writer) error {
	if entry.Meta.Placement != nil {
		return admitPlacement(entry)
	}
	s, err := evaluationOf(entry)
	if err != nil {
		return fmt.Errorf("cannot promote %s: %w, or give --force and a --reason", entry.Ref(), err)
	}
	if s.HeldOut.Better() {
		return nil
	}
	if err := s.HeldOut.write(w); err != nil {
		return err
	}
	v := s.HeldOut.Verdict(entry.Ref().String())
	return fmt.Errorf("cannot promote %s: on %d held-out %s of %s it is, %s; %s, train longer, or give --force and a --reason",
		entry.Ref(), v.Seeds, v.Unit(), evaluation.Together(v.Workloads), v, Offer(v, promote))
}

// CheckEvaluation returns an error if the evaluation that the policy carries is of another policy.
func CheckEvaluation(c *checkpoints.Checkpoint, entry checkpoints.Entry) error {
	if err := c.CheckEvaluation(); err != nil {
		return fmt.Errorf("cannot promote %s: %w; import or train it again", entry.Ref(), err)
	}
	return nil
}

// Promotion is the command that promotes what the reference names.
type Promotion func(ref string) (command string)

// PromotionIn returns the command that promotes in a store.
func PromotionIn(store string) Promotion {
	return func(ref string) string { return fmt.Sprintf("gearshift policy promote %s --store %s", ref, store) }
}

// VerdictChoice returns what to promote after a verdict: the policy if it is better than the best rule,
// otherwise the rule.
func VerdictChoice(v evaluation.Verdict) string {
	if v.Word() == evaluation.Better {
		return v.Policy
	}
	return v.Rule
}

// Offer returns a phrase that says what to promote after a verdict, with the command; see [VerdictChoice].
func Offer(v evaluation.Verdict, promote Promotion) string {
	if v.Word() == evaluation.Better {
		return "promote it: " + promote(v.Policy)
	}
	offer := "promote the rule: " + promote(v.Rule)
	if strings.HasPrefix(v.Rule, "static:") {
		offer += " (it was evaluated alone, with all of the hosts' memory)"
	}
	return offer
}

// Conclusion returns a verdict and what to do next, each on a line.
func Conclusion(v evaluation.Verdict, promote Promotion) string {
	return VerdictLine(v) + "\n" + NextStep(v, promote)
}

// NextStep returns a line that says what a verdict means and what to do next.
func NextStep(v evaluation.Verdict, promote Promotion) string {
	relation := map[string]string{
		evaluation.Better: "better than", evaluation.Level: "level with", evaluation.Worse: "worse than",
		evaluation.Unsettled: "not settled against",
	}[v.Word()]
	return fmt.Sprintf("%s the best rule; %s\n", relation, Offer(v, promote))
}

// VerdictLine returns a verdict in one line, with the policy and the workloads.
func VerdictLine(v evaluation.Verdict) string {
	return fmt.Sprintf("%s on %s: %s", v.Policy, evaluation.Together(v.Workloads), v)
}

// WriteVerdict writes a verdict in lines that fit.
func WriteVerdict(b *strings.Builder, v evaluation.Verdict) {
	fmt.Fprintf(b, "%s on %s:\n", output.Fit(v.Policy, output.Width/2), output.Fit(evaluation.Together(v.Workloads), output.Width/2-5))
	line := v.String()
	if utf8.RuneCountInString(line) > output.Width-2 {
		line = strings.Replace(line, ", by ", ",\n  by ", 1)
	}
	fmt.Fprintf(b, "  %s\n", line)
}
