package mosel

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// estimates are how many times the real latencies the table has (MOSEL-24).
var estimates = []float64{0.2, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5}

// exact is the index of the estimate that is right.
const exact = 3

// estimates plays tables that are wrong, with and without the correction by what batches
// really take.
func (p *paper) estimates(ctx context.Context, part *reports.Part) error {
	part.Text = "Requests answered in time per second of foresight, at a deadline of 1 s, relative to the right estimate. The paper's Figure 7 has AV-HuBERT, MMSA and TVLT keep theirs at an estimate of 150 %."
	for _, fixed := range []bool{true, false} {
		t := report.Table{ID: "estimates-corrected", Title: "Estimates corrected by what batches take, as served", Columns: columns(0, "")}
		if fixed {
			t.ID, t.Title = "estimates-fixed", "Estimates never corrected"
		}
		goodput := make([][][]float64, len(models)) // by model and estimate
		for _, estimate := range estimates {
			t.Columns = append(t.Columns, report.IntervalColumn(fmt.Sprintf("at_%.0f", 100*estimate), fmt.Sprintf("%.0f %%", 100*estimate), "", 3))
			all, err := p.each(ctx, setting{deadline: time.Second, estimate: estimate, fixed: fixed}, ours)
			if err != nil {
				return err
			}
			for j := range models {
				goodput[j] = append(goodput[j], reports.Values(all[j][0], played.Goodput))
			}
		}
		for j := range models {
			row := []report.Cell{report.Text(models[j].name)}
			for i := range estimates {
				row = append(row, relativeCell(goodput[j][i], goodput[j][exact]))
			}
			t.Rows = append(t.Rows, row)
		}
		part.Tables = append(part.Tables, t)
	}
	return nil
}
