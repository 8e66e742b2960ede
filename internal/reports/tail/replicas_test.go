package tail

import (
	"strings"
	"testing"

	"gearshift/internal/reports"
)

// TestReplicasAndTiers: the report has each case and series, and each division of traffic; what
// is corrected is the most even.
func TestReplicasAndTiers(t *testing.T) {
	s := &study{Run: &reports.Run{Quick: true, Only: []string{"replicas", "tiers"}}, series: 1}
	r, err := made(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Sections) != 2 || len(r.Verdict) != 2 || !strings.Contains(r.Verdict[0], "in the median of 1 drawn series") {
		t.Errorf("%d sections; %q", len(r.Sections), r.Verdict)
	}
	for i, want := range []int{len(s.growths()), 1} {
		if got := len(r.Sections[0].Tables[i].Rows); got != want {
			t.Errorf("%d rows in table %d of replicas, want %d", got, i, want)
		}
	}
	if got := len(r.Sections[1].Tables[0].Rows); got != len(divisions()) {
		t.Errorf("%d divisions, want %d", got, len(divisions()))
	}
}
