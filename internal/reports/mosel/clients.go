package mosel

import (
	"context"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// recorded plays arrivals of recorded clients.
func (p *paper) recorded(ctx context.Context, part *reports.Part) error {
	shown := []int{optimized, ours, learned, others + 1, others + 2, drop, none}
	part.Text = "Jobs come when the requests of recorded multimodal clients do (ServeGen), in a stretch of their day that is drawn for each run; all rates are scaled so that the day's mean is the capacity with all inputs. Sizes and floors are as on the other days. Deadline 1 s."
	shares := report.Table{ID: "clients-violations", Title: "Share of violations", Columns: columns(4, "", shown...)}
	values := report.Table{ID: "clients-worth", Title: "What a request is worth", Columns: columns(4, "", shown...)}
	all, err := p.each(ctx, setting{deadline: time.Second, estimate: 1, clients: true}, shown...)
	for j := range all {
		lost, earned := []report.Cell{report.Text(models[j].name)}, []report.Cell{report.Text(models[j].name)}
		for _, runs := range all[j] {
			lost = append(lost, reports.Mean(reports.Values(runs, played.Violations)))
			earned = append(earned, reports.Mean(reports.Values(runs, worth)))
		}
		shares.Rows, values.Rows = append(shares.Rows, lost), append(values.Rows, earned)
	}
	part.Tables = []report.Table{shares, values}
	return err
}
