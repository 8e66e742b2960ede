package tail

import (
	"context"
	"fmt"

	"gearshift/env/clients"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// loads is what requests see at loads from half to nearly full.
func (s *study) loads(ctx context.Context, p *reports.Part) error {
	list, at := rules(), []float64{0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95}
	const n = 1000
	results, err := reports.Grid(ctx, s.Run, len(list), len(at), func(_ context.Context, i, k int) (*clients.Result, error) {
		return s.play(list[i], n, at[k], s.seeds[0])
	})
	if err != nil {
		return err
	}
	t := report.Table{ID: "by-load", Title: fmt.Sprintf("%d clients, the first of the tiers", n), Columns: []report.Column{
		report.TextColumn("rule", "Choice"), report.NumberColumn("load", "Load", "", 2),
		report.NumberColumn("timeouts", "Timeouts", "", 5), report.NumberColumn("p99_ms", "p99", "ms", 1),
		report.NumberColumn("tail", "Busiest 5 % of hosts", "", 3), report.NumberColumn("polls", "Polls per request", "", 2),
	}}
	f := report.Figure{ID: "timeouts", Title: "Timeouts by load", X: report.Axis{Label: "load"}, Y: report.Axis{Label: "share of requests that time out", Range: &report.Range{Min: 0, Max: 0.02}}}
	for i := range list {
		series := report.Series{Name: list[i].name, Style: report.Line}
		for k, load := range at {
			x := results[i][k]
			t.Rows = append(t.Rows, []report.Cell{report.Text(list[i].name), report.Number(load), report.Number(x.TimeoutShare()),
				report.Number(1000 * x.Quantile(0.99).Seconds()), report.Number(x.Tail()), report.Number(float64(x.Polls) / float64(max(1, x.Requests)))})
			series.X, series.Y = append(series.X, load), append(series.Y, x.TimeoutShare())
		}
		f.Series = append(f.Series, series)
	}
	p.Tables, p.Figures = []report.Table{t}, []report.Figure{f}
	return nil
}
