package mosel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// window is the time of a sample (MOSEL-26).
const window = 4 * time.Second

// quantiles are what a box plot shows.
var quantiles = []float64{0.05, 0.25, 0.5, 0.75, 0.95}

// samples shows what a box plot of the paper's samples would.
func (p *paper) samples(ctx context.Context, part *reports.Part) error {
	shown := []int{optimized, ours, learned, others + 2, none}
	all, err := p.each(ctx, setting{deadline: time.Second, estimate: 1}, shown...)
	part.Text = "Quantiles over all windows of 4 s of all days, at a deadline of 1 s, as the paper's box plots show them (MOSEL-26)."
	for _, s := range []struct {
		id, title, unit string
		of              func(env.JobSample) (float64, bool)
	}{
		{"samples-in-time", "Answers in time per second", "1/s", func(s env.JobSample) (float64, bool) {
			return float64(s.InTime) / window.Seconds(), true
		}},
		{"samples-violations", "Share of violations among what ends in a window", "", func(s env.JobSample) (float64, bool) {
			n := s.InTime + s.Violations
			return float64(s.Violations) / float64(max(1, n)), n > 0
		}},
	} {
		t := report.Table{ID: s.id, Title: s.title, Columns: []report.Column{report.TextColumn("model", "model"), report.TextColumn("policy", "policy")}}
		for _, q := range quantiles {
			t.Columns = append(t.Columns, report.Column{Key: fmt.Sprintf("q%02.0f", 100*q), Title: fmt.Sprintf("%.0f %%", 100*q), Unit: s.unit, Kind: report.KindNumber, Decimals: 3})
		}
		for j := range all {
			for i, k := range shown {
				var values []float64
				for _, r := range all[j][i] {
					for _, sample := range r.Samples {
						if x, ok := s.of(sample); ok {
							values = append(values, x)
						}
					}
				}
				slices.Sort(values)
				row := []report.Cell{report.Text(models[j].name), report.Text(compared[k].name)}
				for _, q := range quantiles {
					row = append(row, report.Number(values[int(q*float64(len(values)-1))]))
				}
				t.Rows = append(t.Rows, row)
			}
		}
		part.Tables = append(part.Tables, t)
	}
	return err
}
