package tail

import (
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/workloads"
)

// TestReport: what is polled carries more than what is chosen by chance, and what few clients
// are told lies between; the report has each rule and says so.
func TestReport(t *testing.T) {
	s := smallStudy(3*time.Second, "knowledge", "loads", "theory")
	r, err := made(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
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

// smallStudy is a study of two tiers and 20 clients with these sections.
func smallStudy(length time.Duration, only ...string) *study {
	return &study{Run: &reports.Run{Only: only}, length: length, clients: []int{20}, theory: 40 * time.Second, seeds: workloads.Seeds(workloads.Training, 2)}
}

// TestBalancersAreCompared: the sections have a row for each balancer and allowance, and no rule
// asks more than it may.
func TestBalancersAreCompared(t *testing.T) {
	s := smallStudy(200*time.Millisecond, "variations", "balancers", "probes")
	r, err := made(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if len(r.Sections) != 3 || len(r.Verdict) != 3 || len(r.Sections[2].Figures) != 1 {
		t.Errorf("%d sections, %d figures; %q", len(r.Sections), len(r.Sections[2].Figures), r.Verdict)
	}
	if n, want := len(r.Sections[0].Tables[0].Rows)+len(r.Sections[1].Tables[0].Rows), len(variations())+1+len(peers()); n != want {
		t.Errorf("%d balancers, want %d", n, want)
	}
	if n, want := len(r.Sections[2].Tables[0].Rows), 1+len(asking)*len(allowed); n != want {
		t.Errorf("%d allowances, want %d", n, want)
	}
	for _, x := range asking {
		for _, each := range allowed {
			result, err := s.play(rule{x.name, x.of(each)}, 20, 0.7, s.seeds[0])
			if err != nil {
				t.Fatal(err)
			}
			if n := asked(result); n > each+0.05 {
				t.Errorf("%s asks %.3f for each request, allowed are %v", x.name, n, each)
			}
		}
	}
}

// TestSectionsWithoutAVerdict: those that only show are a report too.
func TestSectionsWithoutAVerdict(t *testing.T) {
	r, err := made(t, smallStudy(200*time.Millisecond, "loads"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// made makes the report of a study.
func made(t *testing.T, s *study) (*report.Report, error) {
	t.Helper()
	all := s.study()
	r, err := all.Make(t.Context())
	if err == nil {
		r.Repeat = "again"
	}
	return r, err
}
