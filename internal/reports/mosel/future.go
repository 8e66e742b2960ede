package mosel

import (
	"context"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	envjobs "gearshift/env/jobs"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// bounded is on how many days the bound of plans that know the future is worked out.
const bounded = 5

// future compares the quality that policies answer in time with a bound of what a plan that
// knows all jobs beforehand can have.
func (p *paper) future(ctx context.Context, all days) (report.Section, error) {
	t := report.Table{ID: "future", Title: "Quality of answers in time, as a share of a bound for plans that know the future, deadline 1 s",
		Columns: []report.Column{report.TextColumn("model", "model")},
		Note:    "The bound leaves out that jobs come one after the other within a stretch of time, and that those of one stretch delay those of the next; each may be dropped. No plan has more, and the best one may have less. On the first days of the report."}
	shown := []int{optimized, ours, ours + 1, learned, others + 1, others + 2, drop, none}
	for _, k := range shown {
		t.Columns = append(t.Columns, report.IntervalColumn(key(compared[k].name), compared[k].name, "", 3))
	}
	days := min(bounded, p.seeds)
	for j := range models {
		m := &models[j]
		table, err := modality.NewTable(m.options(1), modality.Mixed, largest)
		if err != nil {
			return report.Section{}, err
		}
		load := p.load(setting{model: m, deadline: time.Second})
		bounds := make([]float64, days)
		for i := range bounds {
			if err := ctx.Err(); err != nil {
				return report.Section{}, err
			}
			arrivals, err := load.Draw(workloads.Seed(workloads.Evaluation, uint64(i)))
			if err != nil {
				return report.Section{}, err
			}
			bounds[i] = envjobs.Bound(table, arrivals)
		}
		row := []report.Cell{report.Text(m.name)}
		for _, k := range shown {
			share := make([]float64, days)
			for i, r := range all[standard][j][k].results[:days] {
				share[i] = r.QualityInTime / bounds[i]
			}
			row = append(row, cell(evaluation.Bootstrap(share)))
		}
		t.Rows = append(t.Rows, row)
	}
	return report.Section{ID: "knowing", Title: "Compared with knowing the future", Tables: []report.Table{t}}, nil
}
