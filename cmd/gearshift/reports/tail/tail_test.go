package tail

import (
	"strings"
	"testing"
	"time"

	"gearshift/workloads"
)

// TestReport: what is polled carries more than what is chosen by chance, and what few clients
// are told lies between; the report has each rule and says so.
func TestReport(t *testing.T) {
	s := &study{options: options{only: []string{"knowledge", "loads", "theory"}}, length: 3 * time.Second, clients: []int{20}, theory: 40 * time.Second, seeds: workloads.Seeds(workloads.Training, 2),
		count: func(string) func(int, int) { return nil }}
	r, err := s.report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Sections) != 3 || len(r.Verdict) != 3 || !strings.Contains(r.Verdict[0], "with 20 clients; by chance 0.") {
		t.Errorf("%d sections; %q", len(r.Sections), r.Verdict)
	}
	if n := len(r.Sections[0].Tables[0].Rows); n != len(rules()) {
		t.Errorf("%d rows for %d rules", n, len(rules()))
	}
	carried := func(i int) float64 {
		x, err := s.carried(t.Context(), rules()[i], 20, s.seeds[0])
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if random, said, polled := carried(0), carried(1), carried(len(rules())-1); !(random < said && said < polled) {
		t.Errorf("carried by chance %v, as last said %v, polled %v: want that order", random, said, polled)
	}
}
