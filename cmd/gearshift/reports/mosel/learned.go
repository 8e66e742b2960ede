package mosel

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
)

// disturbance is what is not as the table has it.
type disturbance struct {
	key, title      string
	estimate, noise float64
}

// disturbances are those under which the learned policy is compared, at a deadline of a
// second. Estimates are corrected, as served.
var disturbances = []disturbance{
	{"noise-25", "latencies vary by 25 %", 1, 0.25},
	{"noise-50", "latencies vary by 50 %", 1, 0.5},
	{"half", "estimates of 50 %", 0.5, 0},
	{"half-more", "estimates of 150 %", 1.5, 0},
	{"double", "estimates of 200 %", 2, 0},
	{"both", "estimates of 50 %, and latencies vary by 50 %", 0.5, 0.5},
}

// rivals are the policies that the learned one is compared with, and itself.
var rivals = []int{learned, optimized, ours}

// learned compares what a request is worth under the learned policy and under the plans.
func (p *paper) learned(ctx context.Context, all days) (report.Section, string, error) {
	section := report.Section{ID: "learned", Title: "The learned policy",
		Text: "What a request is worth in the mean: its quality if it is answered in time, -1 if it is late or dropped. The differences are paired by day. The policy: " + p.trained + "."}
	var behind, ahead []string
	table := func(id, title string, of func(model int) ([]*run, error)) error {
		t := report.Table{ID: "learned-" + id, Title: title, Columns: []report.Column{text("model", "model"),
			interval("learned", "learned", "", 4), interval("optimized", "optimized", "", 4), interval("foresight", "foresight", "", 4),
			interval("more", "learned less optimized", "", 4), interval("over", "learned less foresight", "", 4)}}
		for j := range models {
			runs, err := of(j)
			if err != nil {
				return err
			}
			row := []report.Cell{report.Text(models[j].name)}
			for _, r := range runs {
				row = append(row, cell(evaluation.Bootstrap(r.worth)))
			}
			for _, other := range runs[1:] {
				more, err := evaluation.Paired(runs[0].worth, other.worth)
				if err != nil {
					return err
				}
				row = append(row, cell(more))
				if where := models[j].name + ", " + title; other == runs[1] && more.Hi < 0 {
					behind = append(behind, where)
				} else if other == runs[1] && more.Lo > 0 {
					ahead = append(ahead, where)
				}
			}
			t.Rows = append(t.Rows, row)
		}
		section.Tables = append(section.Tables, t)
		return nil
	}
	for i, deadline := range deadlines {
		err := table(fmt.Sprint(deadline.Milliseconds()), fmt.Sprintf("deadline %v", deadline), func(j int) ([]*run, error) {
			var runs []*run
			for _, k := range rivals {
				runs = append(runs, all[i][j][k])
			}
			return runs, nil
		})
		if err != nil {
			return section, "", err
		}
	}
	for _, d := range disturbances {
		err := table(d.key, d.title, func(j int) ([]*run, error) {
			var runs []*run
			for _, k := range rivals {
				r, err := p.play(ctx, setting{model: &models[j], deadline: time.Second, estimate: d.estimate, noise: d.noise}, compared[k])
				if err != nil {
					return nil, err
				}
				runs = append(runs, r)
			}
			return runs, nil
		})
		if err != nil {
			return section, "", err
		}
	}
	total := len(models) * (len(deadlines) + len(disturbances))
	verdict := fmt.Sprintf("The learned policy is worth more than optimized, beyond chance, in %d of %d settings", len(ahead), total)
	if len(behind) > 0 {
		verdict += ", and less in " + strings.Join(behind, "; ")
	}
	return section, verdict + ".", nil
}
