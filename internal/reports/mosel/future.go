package mosel

import (
	"cmp"
	"context"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// bounded is on how many days the bound of plans that know the future is worked out.
const bounded = 5

// future compares the quality that policies answer in time with a bound of what a plan that
// knows all jobs beforehand can have.
func (p *paper) future(ctx context.Context, part *reports.Part) error {
	shown := []int{optimized, ours, ours + 1, learned, others + 1, others + 2, drop, none}
	t := report.Table{ID: "future", Title: "Quality of answers in time, as a share of a bound for plans that know the future, deadline 1 s",
		Columns: columns(3, "", shown...),
		Note:    "The bound leaves out that jobs come one after the other within a stretch of time, and that those of one stretch delay those of the next; each may be dropped. No plan has more, and the best one may have less. On the first days of the report."}
	s := setting{deadline: time.Second, estimate: 1}
	all, err := p.each(ctx, s, shown...)
	if err != nil {
		return err
	}
	for j := range models {
		s.model = &models[j]
		table, err := modality.NewTable(s.model.options(1), modality.Mixed, largest)
		if err != nil {
			return err
		}
		bounds := make([]float64, min(bounded, p.Seeds))
		for i := range bounds {
			arrivals, err := p.draw(s, workloads.Seed(workloads.Evaluation, uint64(i)))
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			bounds[i] = boundOf(table, arrivals)
		}
		row := []report.Cell{report.Text(s.model.name)}
		for _, runs := range all[j] {
			share := make([]float64, len(bounds))
			for i := range share {
				share[i] = runs[i].QualityInTime / bounds[i]
			}
			row = append(row, reports.Mean(share))
		}
		t.Rows = append(t.Rows, row)
	}
	part.Tables = []report.Table{t}
	return nil
}
