package tail

import (
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/balance"
	"gearshift/workloads"
)

// TestWaterfall: all measures carry more than headers and what was expected, time out less and
// answer sooner at equal load, and hosts are used more evenly; the tables say so.
func TestWaterfall(t *testing.T) {
	s := &study{Run: &reports.Run{}, length: 1500 * time.Millisecond, seeds: workloads.Seeds(workloads.Training, 2)}
	list := steps()
	d, err := s.measured(t.Context(), []measure{list[0], list[len(list)-1]}, list[1:2])
	if err != nil {
		t.Fatal(err)
	}
	if gain := d.gain(1, 0); !(gain.Mean > 0.35) {
		t.Errorf("all measures carry %.2f more", gain.Mean)
	}
	for j := range s.seeds {
		first, all := d.most[0][j], d.most[1][j]
		if !(all.TimeoutShare() <= first.TimeoutShare()/3 && p99(all) <= p99(first)/2) {
			t.Errorf("tier %d: at equal load %.5f time out in place of %.5f, p99 is %.0f ms in place of %.0f", j, all.TimeoutShare(), first.TimeoutShare(), p99(all), p99(first))
		}
		if all.Loads == 0 || first.Loads != 0 || all.Refused != 0 {
			t.Errorf("tier %d: %d loads with placement, %d without; %d refused", j, all.Loads, first.Loads, all.Refused)
		}
		before, after := peak(d.least[0][j]), peak(d.least[1][j])
		if spread := func(x []float64) float64 { return quantile(x, 0.95) - quantile(x, 0.05) }; spread(after) > 0.8*spread(before) {
			t.Errorf("tier %d: from p5 to p95 hosts differ by %.3f, before by %.3f", j, spread(after), spread(before))
		}
	}
	r := &report.Report{Title: "x", Scenario: "x", Repeat: "x"}
	d.lay(s, r)
	if err := s.headroom(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if n := len(r.Sections[0].Tables[0].Rows); n != 2 || len(r.Sections) != 3 || len(r.Sections[2].Tables[0].Rows) != 10 {
		t.Errorf("%d rows of 2 measures, %d sections", n, len(r.Sections))
	}
	if v := r.Verdict; len(v) != 3 || !strings.HasPrefix(v[0], "Simulated: all measures carry ") {
		t.Errorf("%q", v)
	}
}

// TestStatements: each statement of the text is about measures that are run, and one that turns out
// the other way round is said to.
func TestStatements(t *testing.T) {
	d := &measured{list: append(steps(), others()...)}
	for _, x := range statements() {
		if d.index(x.better) < 0 || d.index(x.worse) < 0 {
			t.Errorf("%+v: there is no such measure", x)
		}
	}
	for i := range d.list {
		d.carried = append(d.carried, []float64{0.5 + 0.01*float64(i), 0.6 + 0.01*float64(i)})
		d.list[i].chooser = balance.Sampled{K: 1}
	}
	d.list = d.list[:3] // header, fresh and model, each better than the one before
	rows := d.orders().Rows
	if len(rows) != 2 {
		t.Fatalf("%d statements about three measures, want 2", len(rows))
	}
	for i, want := range []struct{ row, here string }{{"META-4", "so"}, {"META-9", "the other way round"}} {
		if row := rows[i]; row[len(row)-1] != report.Text(want.row) || row[len(row)-2] != report.Text(want.here) {
			t.Errorf("%v, want %v", row, want)
		}
	}
}
