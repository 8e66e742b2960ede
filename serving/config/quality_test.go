package config

import "testing"

// A key that has no effect is refused, rather than silently ignored.
func TestSecondAnswersAreScoredByAgreementAlone(t *testing.T) {
	q := DefaultQuality()
	q.Shadow.Share = 0.05
	if err := q.Validate(); err != nil {
		t.Fatal(err)
	}
	q.Shadow.ScoredBy = "judge"
	if err := q.Validate(); err == nil || err.Error() != "shadow.scored_by: judge; no judge can be asked while serving: want agreement" {
		t.Errorf("a judge: %v", err)
	}
}
