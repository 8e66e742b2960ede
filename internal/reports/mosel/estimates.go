package mosel

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/evaluation/report"
	envjobs "gearshift/env/jobs"
)

// estimates are how many times the real latencies the table has (MOSEL-24).
var estimates = []float64{0.2, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5}

// exact is the index of the estimate that is right.
const exact = 3

// estimates plays tables that are wrong, with and without the correction by what batches
// really take.
func (p *paper) estimates(ctx context.Context) (report.Section, error) {
	section := report.Section{ID: "estimates", Title: "Latencies that are misestimated",
		Text: "Requests answered in time per second of foresight, at a deadline of 1 s, relative to the right estimate. The paper's Figure 7 has AV-HuBERT, MMSA and TVLT keep theirs at an estimate of 150 %."}
	for _, fixed := range []bool{true, false} {
		t := report.Table{
			ID: "estimates-corrected", Title: "Estimates corrected by what batches take, as served",
			Columns: []report.Column{report.TextColumn("model", "model")},
		}
		if fixed {
			t.ID, t.Title = "estimates-fixed", "Estimates never corrected"
		}
		for _, estimate := range estimates {
			t.Columns = append(t.Columns, report.IntervalColumn(fmt.Sprintf("at_%.0f", 100*estimate), fmt.Sprintf("%.0f %%", 100*estimate), "", 3))
		}
		for j := range models {
			row := []report.Cell{report.Text(models[j].name)}
			var goodput [][]float64
			for _, estimate := range estimates {
				r, err := p.play(ctx, setting{model: &models[j], deadline: time.Second, estimate: estimate, fixed: fixed}, compared[ours])
				if err != nil {
					return section, err
				}
				goodput = append(goodput, r.of((*envjobs.Result).Goodput))
			}
			for i := range estimates {
				row = append(row, relativeCell(goodput[i], goodput[exact]))
			}
			t.Rows = append(t.Rows, row)
		}
		section.Tables = append(section.Tables, t)
	}
	return section, nil
}
